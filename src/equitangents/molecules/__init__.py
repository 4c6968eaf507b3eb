"""Molecules: each atom's neighbours as a signal on the sphere, and kernels that are sums over atoms."""

from equitangents.molecules.kernel import kernel, kernels
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.regressor import MoleculeRegressor
from equitangents.molecules.signals import AtomSignals
from equitangents.molecules.tensors import TensorRegressor

__all__ = [
    "AtomSignals",
    "MoleculeRegressor",
    "Molecules",
    "TensorRegressor",
    "kernel",
    "kernels",
]
