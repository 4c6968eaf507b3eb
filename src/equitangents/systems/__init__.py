"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs."""

from __future__ import annotations

import lazy_loader

_NAMES: dict[str, list[str]] = {
    "cavity": ["cavity_risk"],
    "curves": ["LearningCurve", "learning_curve"],
    "data_groups": ["DataGroup", "data_group"],
    "exchange": ["ExchangeRate", "GroupExchange", "exchange_rate"],
    "kernel_spectrum": ["Component", "KernelSpectrum", "spectrum"],
    "omniscient": ["PoolSpectrum", "omniscient_risk", "pool_spectrum"],
    "orbits_in_part": ["PartialOrbits", "partial_orbits"],
    "paths": ["Path", "path"],
    "power_laws": ["Growth", "PowerLaw", "fit_power_law"],
    "transformations": ["Transformation", "rotate", "transformation"],
    "wrong_groups": ["moved_at_random", "scrambled"],
}

__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_NAMES)

__all__ = [
    "Component",
    "DataGroup",
    "ExchangeRate",
    "GroupExchange",
    "Growth",
    "KernelSpectrum",
    "LearningCurve",
    "PartialOrbits",
    "Path",
    "PoolSpectrum",
    "PowerLaw",
    "Transformation",
    "cavity_risk",
    "data_group",
    "exchange_rate",
    "fit_power_law",
    "learning_curve",
    "moved_at_random",
    "omniscient_risk",
    "partial_orbits",
    "path",
    "pool_spectrum",
    "rotate",
    "scrambled",
    "spectrum",
    "transformation",
]


def __dir__() -> list[str]:
    return sorted(__all__)
