"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .architectures import ARCHITECTURES, UniformFirst, architecture
from .comparison import compare_architectures
from .curves import learning_curve
from .descent import inference
from .embeddings import embed
from .power_laws import fit_power_law
from .symmetry_tests import algorithmic_symmetry
from .system import System
from .transformations import path, rotate, textures, transformation

__all__ = [
    "ARCHITECTURES",
    "System",
    "UniformFirst",
    "algorithmic_symmetry",
    "architecture",
    "compare_architectures",
    "embed",
    "fit_power_law",
    "inference",
    "learning_curve",
    "path",
    "rotate",
    "textures",
    "transformation",
]
