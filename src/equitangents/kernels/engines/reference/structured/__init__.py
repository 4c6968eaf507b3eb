"""Structured programs in JAX: fields over all pairs of positions."""
