"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .architecture_comparison import compare_architectures
from .architectures import ARCHITECTURES, Reparametrised, architecture
from .compared import ArchitectureComparison
from .coupling import coupled
from .curves import LearningCurve, learning_curve
from .data_groups import DataGroup, data_group, expected_symmetry
from .distances import SDist, s_dist
from .embeddings import Embedded, embed
from .exchange import ExchangeRate, GroupExchange, exchange_rate, moved_at_random, scrambled
from .factors import Factor
from .generated import Textures, textures
from .inferences import GradientInference, KernelInference, inference
from .kernel_spectrum import Component, KernelSpectrum, spectrum
from .partial_orbits import PartialOrbits, partial_orbits
from .patch_networks import PatchNetwork, patch_network
from .power_laws import Growth, PowerLaw, fit_power_law
from .predictions import PoolSpectrum, cavity_risk, omniscient_risk, pool_spectrum
from .symmetry_tests import SymmetryResult, algorithmic_symmetry, false_alarm_rate
from .system import FittedSystem, System
from .tangent_spectrum import Eigenvalue, largest_eigenvalue
from .theorem_tables import SymmetryRow, SymmetryTable, symmetry_table
from .transformations import Path, Transformation, path, rotate, transformation
from .two_sample import TwoSample, energy_test

__all__ = [
    "ARCHITECTURES",
    "ArchitectureComparison",
    "Component",
    "DataGroup",
    "Eigenvalue",
    "Embedded",
    "ExchangeRate",
    "Factor",
    "FittedSystem",
    "GradientInference",
    "GroupExchange",
    "Growth",
    "KernelInference",
    "KernelSpectrum",
    "LearningCurve",
    "PartialOrbits",
    "PatchNetwork",
    "Path",
    "PoolSpectrum",
    "PowerLaw",
    "Reparametrised",
    "SDist",
    "SymmetryResult",
    "SymmetryRow",
    "SymmetryTable",
    "System",
    "Textures",
    "Transformation",
    "TwoSample",
    "algorithmic_symmetry",
    "architecture",
    "cavity_risk",
    "compare_architectures",
    "coupled",
    "data_group",
    "embed",
    "energy_test",
    "exchange_rate",
    "expected_symmetry",
    "false_alarm_rate",
    "fit_power_law",
    "inference",
    "largest_eigenvalue",
    "learning_curve",
    "moved_at_random",
    "omniscient_risk",
    "partial_orbits",
    "patch_network",
    "path",
    "pool_spectrum",
    "rotate",
    "s_dist",
    "scrambled",
    "spectrum",
    "symmetry_table",
    "textures",
    "transformation",
]
