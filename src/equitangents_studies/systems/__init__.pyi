"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .architecture_comparison import compare_architectures
from .architectures import ARCHITECTURES, architecture
from .coupling import coupled
from .curves import learning_curve
from .data_groups import data_group, expected_symmetry
from .descent import GradientInference
from .distances import s_dist
from .embeddings import embed
from .exchange import exchange_rate, moved_at_random, scrambled
from .generated import textures
from .inferences import KernelInference, inference
from .kernel_spectrum import spectrum
from .partial_orbits import PartialOrbits, partial_orbits
from .patch_networks import patch_network
from .power_laws import PowerLaw, fit_power_law
from .predictions import cavity_risk, omniscient_risk
from .symmetry_tests import algorithmic_symmetry, false_alarm_rate
from .system import System
from .theorem_tables import symmetry_table
from .transformations import Transformation, path, rotate, transformation

__all__ = [
    "ARCHITECTURES",
    "GradientInference",
    "KernelInference",
    "PartialOrbits",
    "PowerLaw",
    "System",
    "Transformation",
    "algorithmic_symmetry",
    "architecture",
    "cavity_risk",
    "compare_architectures",
    "coupled",
    "data_group",
    "embed",
    "exchange_rate",
    "expected_symmetry",
    "false_alarm_rate",
    "fit_power_law",
    "inference",
    "learning_curve",
    "moved_at_random",
    "omniscient_risk",
    "partial_orbits",
    "patch_network",
    "path",
    "rotate",
    "s_dist",
    "scrambled",
    "spectrum",
    "symmetry_table",
    "textures",
    "transformation",
]
