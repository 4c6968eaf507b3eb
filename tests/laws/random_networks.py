"""Random networks in the words of the literal oracle: on grids of one to three dimensions, and on small groups."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import equitangents as et
from laws.networks import small_group
from oracles import finite_groups
from oracles.literal_kernels import grid_reads

PHIS = [("phi", name) for name in ("relu", "relu", "erf", "gelu", "abs", "cos", "sin")] + [("phi", "leaky_relu", 0.3)]
DENSE = ("dense", 1.1, 0.2)
GRIDS = [(7,), (8,), (12,), (1, 1), (4, 4), (5, 4), (3, 6), (2, 2, 3), (3, 2, 2)]


def scales(draw):
    """W_std and b_std."""
    return draw(st.sampled_from([0.8, 1.3, 1.6])), draw(st.sampled_from([0.0, 0.3]))


@st.composite
def grid_networks(draw, grids=GRIDS):
    """(layers, three inputs): linear layers, pools and residual blocks inside each other, and readouts of all kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grid = at = draw(st.sampled_from(grids))
    phis = st.sampled_from(PHIS)

    def sizes(most, less=0):
        return tuple(draw(st.integers(1, max(1, min(most, n - less)))) for n in at)

    def linear(padding, keep=False):
        nonlocal at
        kind = draw(st.sampled_from(["conv", "conv", "conv", "local", "dense"]))
        if kind == "dense":
            return ("dense", *scales(draw))
        padding = "zero" if keep and padding == "valid" else padding
        stride = (1,) * len(at) if keep else tuple(draw(st.sampled_from([1, 1, 2])) for _ in at)
        layer = (kind, sizes(3), stride, padding, *scales(draw))
        at = grid_reads(at, layer[1], stride, padding)[0]
        return layer

    def pool(padding, keep=False):
        nonlocal at
        if not keep and draw(st.booleans()):
            layer = ("avg_pool", sizes(3))
        else:
            stride = (1,) * len(at) if keep else tuple(draw(st.integers(1, 3)) for _ in at)
            padding = "zero" if keep and padding == "valid" else draw(st.sampled_from(["zero", padding]))
            # Of windows that hold the same positions the literal sums do not know that their distance is 0.
            layer = ("avg_pool", sizes(3, less=1), stride, padding)
        at = grid_reads(at, layer[1], *(layer[2:] or (layer[1], "valid")))[0]
        return layer

    def block(padding, depth):
        inner = [linear(padding, keep=True)]
        if draw(st.booleans()):
            inner.append(draw(phis))
        if draw(st.booleans()):
            inner += [pool(padding, keep=True), linear(padding, keep=True)]
        if depth and draw(st.booleans()):
            inner.append(block(padding, depth - 1))
        if draw(st.booleans()):
            inner += [linear(padding, keep=True), draw(phis)]
        return ("residual", inner)

    layers, gaussian = [], False
    for i in range(draw(st.integers(1, 3))):
        padding = draw(st.sampled_from(["circular", "zero", "valid"]))
        if i == 0 or draw(st.booleans()):
            layers, gaussian = [*layers, linear(padding)], True
        if draw(st.integers(0, 2)) == 0:
            layers, gaussian = [*layers, block(padding, 2)], False
        if gaussian and draw(st.booleans()):
            layers, gaussian = [*layers, draw(phis)], False
        if draw(st.booleans()):
            layers.append(pool(padding))
    layers += [DENSE, draw(phis), draw(st.sampled_from([("flatten",), ("global_pool",)])), DENSE]
    if draw(st.booleans()):
        layers += [draw(phis), ("residual", [DENSE, draw(phis)]), DENSE]
    return layers, rng.standard_normal((3, *grid, draw(st.sampled_from([2, 5]))))


@st.composite
def lifted_networks(draw):
    """(layers on a small group, the group, its table, its action on a few points, three inputs)."""
    group, table = small_group(draw(st.sampled_from(sorted(finite_groups.SMALL))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    elements, parts, count = st.integers(0, len(table) - 1), [], 0
    for _ in range(draw(st.integers(1, 2))):
        orbit = finite_groups.coset_action(table, finite_groups.subgroup(table, draw(st.lists(elements, max_size=1))))
        parts.append(count + orbit)
        count += orbit.shape[1]
    points = np.concatenate(parts, axis=1)

    def window(size):
        chosen = rng.choice(size, size=rng.integers(1, size + 1), replace=False)
        return chosen.tolist(), rng.dirichlet(np.ones(len(chosen))) if draw(st.booleans()) else None

    layers = [("lift", points, *window(count), *scales(draw)), draw(st.sampled_from(PHIS))]
    for _ in range(draw(st.integers(0, 2))):
        layers += [("group_conv", table, *window(len(table)), *scales(draw)), draw(st.sampled_from(PHIS))]
    return layers, group, table, et.actions.permutations(group, points), rng.standard_normal((3, count, 3))


@st.composite
def group_networks(draw):
    """(layers with a readout, what `laws.networks.network` takes beside them, three inputs)."""
    layers, group, table, action, x = draw(lifted_networks())
    readout, subgroup = draw(st.sampled_from(["flatten", "pool", "cosets"])), None
    if readout == "cosets":
        inside = finite_groups.subgroup(table, [draw(st.integers(0, len(table) - 1))])
        subgroup = group.subgroup(inside)
        layers = [*layers, ("coset_pool", finite_groups.left_cosets(table, inside)), ("flatten",), DENSE]
    else:
        pool = ("coset_pool", np.zeros(len(table), dtype=int))
        layers = [*layers, ("flatten",) if readout == "flatten" else pool, DENSE]
    if draw(st.booleans()):
        layers += [draw(st.sampled_from(PHIS)), DENSE]
    return layers, {"action": action, "subgroup": subgroup}, x
