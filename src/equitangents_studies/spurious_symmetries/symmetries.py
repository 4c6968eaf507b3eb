"""The groups of the study in their order by inclusion, and whose symmetry is spurious for images.

I ⊂ O(3)xI ⊂ O(3)^d ⊂ O(3d), I ⊂ P(3d) ⊂ O(3d). A rotation of the channels that is the same at every position leaves
neighbourhoods as they are; every larger group is spurious, whether it moves the data or is the algorithm's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from equitangents_studies.spurious_symmetries.rank_test import Pairs
from equitangents_studies.systems import ARCHITECTURES
from equitangents_studies.systems.data_groups import NAMES as GROUPS
from equitangents_studies.systems.data_groups import data_group, expected_symmetry

ORDER = "I ⊂ O(3)⊗I ⊂ O(3)^d ⊂ O(3d) and I ⊂ P(3d) ⊂ O(3d)"
_SHAPE = (8, 8, 3)  # inclusions are the same for all


def within(one: str, other: str) -> bool:
    """Whether `one` is a subgroup of `other`, and another group.

    >>> within("P(3d)", "O(3d)"), within("O(3)^d", "P(3d)")
    (True, False)
    """
    return one != other and data_group(other, _SHAPE).holds(data_group(one, _SHAPE))


def own_group(architecture: str, inference: str) -> str:
    """The largest of the groups, permutations left out, under which Theorem 4.1 says that the algorithm is symmetric.

    >>> own_group("VEC", "NTK"), own_group("VEC", "NN+")
    ('O(3)^d', 'O(3)xI')
    """
    held = [g for g in GROUPS if g != "P(3d)" and expected_symmetry(architecture, g, _SHAPE, finite=inference != "NTK")]
    return held[-1]


def by_data(groups: Sequence[str] = GROUPS) -> Pairs:
    """Pairs of places in `groups`, the smaller group first."""
    return [(i, j) for i, a in enumerate(groups) for j, b in enumerate(groups) if within(a, b)]


def by_model(inference: str, architectures: Sequence[str] = ARCHITECTURES) -> Pairs:
    """Pairs of places in `architectures`, that of the smaller group first."""
    return by_data([own_group(name, inference) for name in architectures])


def spurious(architecture: str, group: str) -> bool:
    """Whether a trained network on data moved by the group has to do without neighbourhoods."""
    return any(within("O(3)xI", g) or g == "P(3d)" for g in (own_group(architecture, "NN"), group))
