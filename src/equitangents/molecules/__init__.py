"""Molecules: what each atom sees of the others as signals on the sphere, and kernels that are sums over atoms."""

from equitangents.molecules.kernel import kernel, kernels, kernels_diagonal
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals, Neighbourhoods

__all__ = ["AtomSignals", "Molecules", "Neighbourhoods", "kernel", "kernels", "kernels_diagonal"]
