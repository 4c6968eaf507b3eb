"""How many examples a property test draws, where the number of the profile is too many."""

from __future__ import annotations

from hypothesis import settings


def examples(usual: int, *, random: int) -> settings:
    """`usual` examples, and `random` of them in `make test-random`, which draws new ones."""
    return settings(max_examples=usual if settings.default.derandomize else random)
