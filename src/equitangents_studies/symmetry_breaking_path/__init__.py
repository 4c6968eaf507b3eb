"""The study `symmetry-breaking-path`: networks between their neighbours while their symmetry is broken step by step."""
