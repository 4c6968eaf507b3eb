"""Benchmarks: `python -m benchmarks [NAME ...]`."""
