"""Molecules: what each atom sees of the others as signals on the sphere, and kernels that are sums over atoms."""

from typing import TYPE_CHECKING

from equitangents.former import former_names
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

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__)
