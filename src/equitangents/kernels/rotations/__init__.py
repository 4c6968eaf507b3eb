"""Kernels of networks lifted to rotations: SO(3), O(3), and finite groups of rotations."""
