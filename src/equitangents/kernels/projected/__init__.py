"""Kernels of outputs that turn with the input: kernels of numbers, projected onto a representation."""
