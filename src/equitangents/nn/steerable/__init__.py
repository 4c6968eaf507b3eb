"""Layers on steerable features: first layers, equivariant maps, nonlinearities that respect the group, pooling."""
