"""Equitangents: what a neural network learns from symmetric data, exactly and at scale.

Everything public is reached from here and imported when first used, so that `import equitangents` stays quick.
"""

import importlib
from typing import Any

import lazy_loader

from equitangents import beside as _beside
from equitangents._version import __version__

_load, _, _lazy = lazy_loader.attach_stub(__name__, __file__)

__all__ = sorted([*_lazy, "audit", *_beside.ROOMS])


def __getattr__(name: str) -> Any:
    # a package that can be called, which a stub cannot import as one: types of it are those of its class
    if name == "audit":
        return importlib.import_module(f"{__name__}.audit")
    if name in ("experimental", "utils"):  # of neural-tangents, without a counterpart: they say what to use instead
        return getattr(importlib.import_module(f"{__name__}.stax.missing"), name)
    if name in _beside.ROOMS:
        return _beside.room(name)
    return _load(name)


def __dir__() -> list[str]:
    return __all__
