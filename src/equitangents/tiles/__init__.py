"""Tiles on disk: how they lie there, whole and with checksums, and stores of them that are complete or forget."""
