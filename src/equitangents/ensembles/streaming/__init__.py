"""Predictions for more inputs than memory holds, from files to files."""
