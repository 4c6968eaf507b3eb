"""Kernels of each kind of program: an engine is chosen, inputs are prepared, norms and memory looked after."""
