"""Ensembles whose targets are fields, one value at every position of a network's output: outputs as single points."""
