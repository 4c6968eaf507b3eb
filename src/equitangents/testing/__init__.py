"""Assertions for the tests of one's own models, and a pytest plugin with the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

__getattr__, _, __all__ = lazy_loader.attach(__name__, submod_attrs={"assertion": ["assert_equivariant"]})

if TYPE_CHECKING:
    from equitangents.testing.assertion import assert_equivariant

    __all__ = ["assert_equivariant"]


def __dir__() -> list[str]:
    return sorted(__all__)
