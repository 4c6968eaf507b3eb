"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs."""

from __future__ import annotations

import lazy_loader

_NAMES: dict[str, list[str]] = {
    "data_groups": ["DataGroup", "data_group"],
    "paths": ["Path", "path"],
    "transformations": ["Transformation", "rotate", "transformation"],
}

__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_NAMES)

__all__ = [
    "DataGroup",
    "Path",
    "Transformation",
    "data_group",
    "path",
    "rotate",
    "transformation",
]


def __dir__() -> list[str]:
    return sorted(__all__)
