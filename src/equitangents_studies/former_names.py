"""Names that were public in a room one version ago: they go on for one version, and warn."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def with_former(room: str, public: Callable[[str], Any] | None, former: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a room: what is public now, else what was, by the module of the room that has it.

    former: names by module, such as {"two_sample": "TwoSample energy_test"}.
    """
    homes = {name: module for module, names in former.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in homes:
            home = f"{room}.{homes[name]}"
            told = f"{room}.{name} is no longer public; it goes with the next version, and lies in {home}"
            warnings.warn(told, DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(home), name)
        if public is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return public(name)

    return get
