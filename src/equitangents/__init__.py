"""Equitangents: what a neural network learns from symmetric data, exactly and at scale.

Everything public is reached from here and imported when first used, so that `import equitangents` stays quick.
"""

import importlib
from typing import Any

import lazy_loader

from equitangents._version import __version__

_load, _, _lazy = lazy_loader.attach_stub(__name__, __file__)

# The package of studies comes with the same install and imports public names alone; the library knows its name.
_COMPANION = {name: f"equitangents_studies.{name}" for name in ("systems", "baselines", "data")}
_COMPANION["studies"] = "equitangents_studies"
__all__ = sorted([*_lazy, "audit", *_COMPANION])


def __getattr__(name: str) -> Any:
    # a package that can be called, which a stub cannot import as one: types of it are those of its class
    if name == "audit":
        return importlib.import_module(f"{__name__}.audit")
    if name in ("experimental", "utils"):  # of neural-tangents, without a counterpart: they say what to use instead
        return getattr(importlib.import_module(f"{__name__}.stax.missing"), name)
    if name in _COMPANION:
        return importlib.import_module(_COMPANION[name])
    return _load(name)


def __dir__() -> list[str]:
    return __all__
