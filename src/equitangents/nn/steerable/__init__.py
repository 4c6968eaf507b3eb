"""Layers on steerable features: input layers, equivariant linear maps, equivariant nonlinearities, pooling."""
