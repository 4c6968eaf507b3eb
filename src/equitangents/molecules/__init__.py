"""Molecules: what each atom sees of the others as signals on the sphere, and kernels that are sums over atoms."""

from equitangents.molecules.joint import JointKernels, joint_kernels
from equitangents.molecules.kernel import kernel, kernels, kernels_diagonal, signals_for
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.regressor import MoleculeRegressor, Prediction
from equitangents.molecules.resolution import kernel_for_forces, kernel_for_tensors
from equitangents.molecules.signals import AtomSignals, Neighbourhoods
from equitangents.molecules.smooth_kernel import SmoothKernel
from equitangents.molecules.tensors import TensorPrediction, TensorRegressor

__all__ = [
    "AtomSignals",
    "JointKernels",
    "MoleculeRegressor",
    "Molecules",
    "Neighbourhoods",
    "Prediction",
    "SmoothKernel",
    "TensorPrediction",
    "TensorRegressor",
    "joint_kernels",
    "kernel",
    "kernel_for_forces",
    "kernel_for_tensors",
    "kernels",
    "kernels_diagonal",
    "signals_for",
]
