"""Kernels of equivariant outputs: scalar kernels, projected onto a representation."""
