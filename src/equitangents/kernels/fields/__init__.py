"""Kernels of networks that end on positions: NNGP and NTK between all positions of two inputs, or between some."""
