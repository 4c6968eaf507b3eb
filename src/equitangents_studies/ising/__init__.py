"""The study `ising`: energies of the two-dimensional Ising model."""
