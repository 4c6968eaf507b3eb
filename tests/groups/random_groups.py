"""Random finite groups for Hypothesis, and literal descriptions to compare them with."""

import numpy as np
from hypothesis import strategies as st

from equitangents import groups


def _permuted(group, seed):
    """The same group under a random numbering, so that the identity is not element 0."""
    p = np.random.default_rng(seed).permutation(group.order)
    table = np.empty_like(group.table)
    table[p[:, None], p] = p[group.table]
    return groups.from_table(table, f"renumbered {group.name}")


_SMALL = [
    lambda: groups.cyclic(1),
    lambda: groups.cyclic(6),
    lambda: groups.dihedral(4),
    lambda: groups.dihedral(5),
    lambda: groups.symmetric(4),
    groups.quaternion,
    groups.tetrahedral,
    lambda: groups.translations((2, 3)),
    lambda: groups.direct_product(groups.quaternion(), groups.cyclic(3)),
    lambda: groups.generated_by_permutations([(1, 2, 3, 4, 5, 6, 0), (0, 2, 4, 6, 1, 3, 5)]),  # of order 21
    lambda: groups.wallpaper(4, False, (3, 3)),
    lambda: groups.wallpaper(2, True, (2, 3)),
    lambda: groups.wallpaper(4, True, (2, 2)),
]


def small_groups():
    """Groups of at most a few dozen elements, abelian and not, some renumbered at random."""
    named = st.sampled_from(_SMALL).map(lambda make: make())
    renumbered = st.builds(_permuted, named, st.integers(0, 99))
    generated = st.lists(st.permutations(range(4)), min_size=1, max_size=2).map(groups.generated_by_permutations)
    return st.one_of(named, renumbered, generated)


@st.composite
def groups_with_elements(draw, count):
    """A group and `count` of its elements."""
    group = draw(small_groups())
    return group, *(draw(st.integers(0, group.order - 1)) for _ in range(count))
