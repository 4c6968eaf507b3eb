"""Whether a kernel is invariant follows from windows, pools and tables: what is said is what literal kernels show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.kernels.invariance import is_invariant
from equitangents.nn import (
    Attention,
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    LayerNorm,
    Lift,
    Relu,
    Residual,
    Sequential,
)

SIDE = 4
ACTIONS = (
    et.actions.image_rotations(4),
    et.actions.image_dihedral(1),
    et.actions.image_dihedral(4),
    et.actions.translations((SIDE, SIDE)),
    et.actions.grid(et.groups.wallpaper(4, True, (SIDE, SIDE))),
)


@st.composite
def networks(draw):
    """Convolutions of all windows, paddings and strides, pools, lifts and other layers, on images of side 4."""
    if draw(st.integers(0, 4)) == 0:
        group = et.groups.wallpaper(draw(st.sampled_from([1, 2, 4])), draw(st.booleans()), (SIDE, SIDE))
        steps = [Lift(group, 8, draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (4, 4)]))), Relu()]
        if draw(st.booleans()):
            steps += [GroupConv(8, draw(st.sampled_from([(1, 1), (2, 2), (3, 3)]))), Relu()]
        return Sequential(*steps, draw(st.sampled_from([GroupPool(), Flatten()])), Dense(1))
    layers = []
    for _ in range(draw(st.integers(0, 2))):
        width, stride = (
            draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (1, 2), (3, 1)])),
            draw(st.sampled_from([1, 1, 2])),
        )
        padding = draw(st.sampled_from(["zero", "circular", "valid"]))
        layers += [Conv(8, width, stride, padding, b_std=0.3)]
        layers += [draw(st.sampled_from([Relu(), LayerNorm(), LayerNorm(positions=True), Attention(4), Relu()]))]
    if draw(st.booleans()):
        layers += [Residual(Conv(8, draw(st.sampled_from([2, 3, (1, 3)]))), Relu(), Dense(8))]
    if draw(st.integers(0, 2)) == 0:
        layers += [AvgPool(2, draw(st.sampled_from([1, 2])), draw(st.sampled_from(["zero", "circular", "valid"])))]
    end = draw(st.sampled_from([Flatten(), GlobalAvgPool()]))
    return Sequential(*layers, Dense(8), Relu(), end, Dense(4), Relu(), Dense(1))


def change(net, action, x):
    """The largest relative change of both kernels, over all elements."""
    base = net.kernel(x)
    moved = [net.kernel(action(int(g), x)) for g in action.group.generators]
    pairs = [(getattr(base, name), getattr(k, name)) for k in moved for name in ("nngp", "ntk")]
    return np.max([np.abs(a - b).max() / np.abs(a).max() for a, b in pairs])


@pytest.mark.parametrize("padding", ["zero", "circular", "valid"])
def test_windows_of_all_sides_and_strides(padding):
    counts = {"known": 0, "moving": 0, "missed": 0}
    for width in ((1, 1), (2, 2), (3, 3), (1, 2)):
        for stride in (1, 2):
            for end in (Flatten(), GlobalAvgPool()):
                net = Sequential(Conv(8, width, stride, padding, b_std=0.3), Relu(), end, Dense(1))
                compare(counts, net, ACTIONS[0], 0)
                compare(counts, net, ACTIONS[3], 0)
    assert counts["known"] >= 4, counts
    assert counts["moving"] >= 4, counts
    assert counts["missed"] <= 2, counts


@pytest.mark.slow
def test_what_is_known_is_so_and_little_is_missed():
    counts = {"known": 0, "moving": 0, "missed": 0}

    @settings(max_examples=60, deadline=None)
    @given(networks(), st.sampled_from(ACTIONS), st.integers(0, 2**16))
    def check(net, action, seed):
        compare(counts, net, action, seed)

    check()
    assert counts["known"] > 1, counts
    assert counts["moving"] > 1, counts
    assert counts["missed"] <= 0.15 * sum(counts.values()), counts


def compare(counts, net, action, seed):
    x = np.random.default_rng(seed).standard_normal((2, SIDE, SIDE, 2))
    try:
        error = change(net, action, x)
    except et.errors.NetworkError:  # windows that do not fit what is left
        return
    if is_invariant(net, action, x):
        assert error < 1e-9, net
        counts["known"] += 1
    else:
        counts["moving" if error > 1e-9 else "missed"] += 1
