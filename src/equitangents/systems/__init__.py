"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

_NAMES = {
    "architecture_comparison": ["compare_architectures"],
    "architectures": ["ARCHITECTURES", "architecture"],
    "cavity": ["cavity_risk"],
    "compared": ["ArchitectureComparison"],
    "coupling": ["coupled"],
    "curves": ["LearningCurve", "learning_curve"],
    "data_groups": ["DataGroup", "data_group"],
    "distances": ["SDist", "s_dist"],
    "embeddings": ["Embedded", "embed"],
    "exchange": ["ExchangeRate", "GroupExchange", "exchange_rate"],
    "factors": ["Factor"],
    "generated": ["Textures", "textures"],
    "inferences": ["GradientInference", "KernelInference", "inference"],
    "kernel_spectrum": ["Component", "KernelSpectrum", "spectrum"],
    "omniscient": ["PoolSpectrum", "omniscient_risk", "pool_spectrum"],
    "orbits_in_part": ["PartialOrbits", "partial_orbits"],
    "parametrisations": ["Reparametrised"],
    "patch_networks": ["PatchNetwork", "patch_network"],
    "paths": ["Path", "path"],
    "power_laws": ["Growth", "PowerLaw", "fit_power_law"],
    "symmetry_tests": ["SymmetryResult", "algorithmic_symmetry", "false_alarm_rate"],
    "system": ["FittedSystem", "System"],
    "tangent_spectrum": ["Eigenvalue", "largest_eigenvalue"],
    "theorem_tables": ["SymmetryRow", "SymmetryTable", "expected_symmetry", "symmetry_table"],
    "transformations": ["Transformation", "rotate", "transformation"],
    "two_sample": ["TwoSample", "energy_test"],
    "wrong_groups": ["moved_at_random", "scrambled"],
}

__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_NAMES)

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

if TYPE_CHECKING:
    from equitangents.systems.architecture_comparison import compare_architectures
    from equitangents.systems.architectures import ARCHITECTURES, architecture
    from equitangents.systems.compared import ArchitectureComparison
    from equitangents.systems.coupling import coupled
    from equitangents.systems.data_groups import DataGroup, data_group
    from equitangents.systems.distances import SDist, s_dist
    from equitangents.systems.embeddings import Embedded, embed
    from equitangents.systems.factors import Factor
    from equitangents.systems.generated import Textures, textures
    from equitangents.systems.inferences import GradientInference, KernelInference, inference
    from equitangents.systems.parametrisations import Reparametrised
    from equitangents.systems.patch_networks import PatchNetwork, patch_network
    from equitangents.systems.paths import Path, path
    from equitangents.systems.symmetry_tests import SymmetryResult, algorithmic_symmetry, false_alarm_rate
    from equitangents.systems.system import FittedSystem, System
    from equitangents.systems.tangent_spectrum import Eigenvalue, largest_eigenvalue
    from equitangents.systems.theorem_tables import SymmetryRow, SymmetryTable, expected_symmetry, symmetry_table
    from equitangents.systems.transformations import Transformation, rotate, transformation
    from equitangents.systems.two_sample import TwoSample, energy_test


def __dir__() -> list[str]:
    return sorted(__all__)
