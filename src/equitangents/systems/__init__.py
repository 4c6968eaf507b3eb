"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

_NAMES = {
    "architectures": ["ARCHITECTURES", "architecture"],
    "coupling": ["coupled"],
    "data_groups": ["DataGroup", "data_group"],
    "distances": ["SDist", "s_dist"],
    "embeddings": ["Embedded", "embed"],
    "generated": ["Textures", "textures"],
    "inferences": ["GradientInference", "KernelInference", "inference"],
    "parametrisations": ["Reparametrised"],
    "patch_networks": ["PatchNetwork", "patch_network"],
    "paths": ["Path", "path"],
    "symmetry_tests": ["SymmetryResult", "algorithmic_symmetry", "false_alarm_rate"],
    "system": ["FittedSystem", "System"],
    "tangent_spectrum": ["Eigenvalue", "largest_eigenvalue"],
    "theorem_tables": ["SymmetryRow", "SymmetryTable", "expected_symmetry", "symmetry_table"],
    "transformations": ["Transformation", "rotate", "transformation"],
    "two_sample": ["TwoSample", "energy_test"],
}

__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_NAMES)

__all__ = [
    "ARCHITECTURES",
    "DataGroup",
    "Eigenvalue",
    "Embedded",
    "FittedSystem",
    "GradientInference",
    "KernelInference",
    "PatchNetwork",
    "Path",
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
    "coupled",
    "data_group",
    "embed",
    "energy_test",
    "expected_symmetry",
    "false_alarm_rate",
    "inference",
    "largest_eigenvalue",
    "patch_network",
    "path",
    "rotate",
    "s_dist",
    "symmetry_table",
    "textures",
    "transformation",
]

if TYPE_CHECKING:
    from equitangents.systems.architectures import ARCHITECTURES, architecture
    from equitangents.systems.coupling import coupled
    from equitangents.systems.data_groups import DataGroup, data_group
    from equitangents.systems.distances import SDist, s_dist
    from equitangents.systems.embeddings import Embedded, embed
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
