"""Kernels of each kind of program: choose an engine, prepare inputs, handle norms, check memory."""
