"""Whether kernels are invariant, or follow one moved input, is known by structure: as literal kernels show."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn
from equitangents.kernels.invariance import is_invariant

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
        steps = [nn.Lift(group, 8, draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (4, 4)]))), nn.Relu()]
        if draw(st.booleans()):
            steps += [nn.GroupConv(8, draw(st.sampled_from([(1, 1), (2, 2), (3, 3)]))), nn.Relu()]
        return nn.Sequential(*steps, draw(st.sampled_from([nn.GroupPool(), nn.Flatten()])), nn.Dense(1))
    layers = []
    for _ in range(draw(st.integers(0, 2))):
        width, stride = (
            draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (1, 2), (3, 1)])),
            draw(st.sampled_from([1, 1, 2])),
        )
        padding = draw(st.sampled_from(["zero", "circular", "valid"]))
        layers += [nn.Conv(8, width, stride, padding, b_std=0.3)]
        layers += [
            draw(st.sampled_from([nn.Relu(), nn.LayerNorm(), nn.LayerNorm(positions=True), nn.Attention(4), nn.Relu()]))
        ]
    if draw(st.booleans()):
        layers += [nn.Residual(nn.Conv(8, draw(st.sampled_from([2, 3, (1, 3)]))), nn.Relu(), nn.Dense(8))]
    if draw(st.integers(0, 2)) == 0:
        layers += [nn.AvgPool(2, draw(st.sampled_from([1, 2])), draw(st.sampled_from(["zero", "circular", "valid"])))]
    end = draw(st.sampled_from([nn.Flatten(), nn.GlobalAvgPool()]))
    return nn.Sequential(*layers, nn.Dense(8), nn.Relu(), end, nn.Dense(4), nn.Relu(), nn.Dense(1))


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
            for end in (nn.Flatten(), nn.GlobalAvgPool()):
                net = nn.Sequential(nn.Conv(8, width, stride, padding, b_std=0.3), nn.Relu(), end, nn.Dense(1))
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


TURNS, SHIFTS = et.actions.image_rotations(4), et.actions.translations((SIDE, SIDE))
PLANE = et.groups.wallpaper(4, False, (SIDE, SIDE))
MOTIONS = et.actions.grid(PLANE)
SWAP = et.actions.channels(et.groups.cyclic(2), [[0, 1], [1, 0]])
WINDOWS = ((1, 1), (2, 2), (3, 3), (1, 3))
ON_GRIDS = [
    nn.Sequential(nn.Conv(4, width, padding=padding, b_std=0.3), nn.Relu(), nn.Conv(1, (1, 1)))
    for width in WINDOWS
    for padding in ("circular", "zero")
] + [
    nn.Sequential(
        nn.Conv(4, (3, 3), padding="circular"),
        nn.LayerNorm(),
        nn.Relu(),
        nn.Residual(nn.Dense(4), nn.Relu()),
        nn.Dense(1),
    ),
    nn.Sequential(
        nn.Dense(4), nn.LayerNorm(positions=True), nn.Relu(), nn.Conv(4, (2, 2), padding="circular"), nn.Dense(1)
    ),
    nn.Sequential(nn.AvgPool((3, 3), 1, "circular"), nn.Dense(4), nn.Relu(), nn.Dense(1)),
    nn.Sequential(nn.Conv(4, (3, 3), padding="circular"), nn.AvgPool((3, 3), 1, "circular"), nn.Relu(), nn.Dense(1)),
    nn.Sequential(nn.LocallyConnected(4, (1, 1)), nn.Relu(), nn.Dense(1)),
    nn.Sequential(nn.Dense(4), nn.Attention(4), nn.Dense(1)),
]
ON_GROUPS = [nn.Sequential(nn.Lift(PLANE, 4, (3, 3)), nn.Relu(), nn.GroupConv(1, width)) for width in ((1, 1), (3, 3))]


def grids(action):
    """Where each generator takes the pixels."""
    return np.stack([action.moves(int(g), (SIDE, SIDE, 2))[0] for g in action.group.generators])


def elements(group):
    """Where each generator takes the elements, h to g h."""
    return np.stack([group._compose(np.full(group.order, g), np.arange(group.order)) for g in group.generators])


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_said_of_one_moved_input_is_so(seed):
    x = np.random.default_rng(seed).standard_normal((2, SIDE, SIDE, 2))
    counts = {"known": 0, "moving": 0, "missed": 0}
    cases = [(net, action, grids(action)) for net in ON_GRIDS for action in (TURNS, SHIFTS, SWAP)]
    cases += [(net, MOTIONS, elements(PLANE)) for net in ON_GROUPS]
    for net, action, moves in cases:
        base, error = net.kernel_field(x, x).ntk, 0.0
        for g, to in zip(action.group.generators, moves, strict=True):
            moved = net.kernel_field(action(int(g), x), x).ntk[:, to]
            error = float(np.max([error, np.abs(moved - base).max() / np.abs(base).max()]))
        if net.field_symmetry(action, x.shape[1:], moves) == "equivariant":
            assert error < 1e-9, (net, action)
            counts["known"] += 1
        else:
            counts["moving" if error > 1e-9 else "missed"] += 1
    assert counts["known"] >= 12, counts
    assert counts["moving"] >= 12, counts
    assert counts["missed"] <= 1, counts


def test_readouts_know_what_turns_with_them_and_nothing_else():
    S3 = et.groups.symmetric(3)
    action, plane = et.actions.permutations(S3, S3.table), S3.irreps("real")[2]
    net = nn.Sequential(nn.Lift(action, 4), nn.Relu(), nn.Readout(plane))
    right = np.stack([plane(g) for g in S3.generators])
    assert net.outputs_equivariant_under(action, (6, 2), right)
    for wrong in (right[::-1], -right, np.stack([np.eye(2)] * len(right)), np.full_like(right, np.nan)):
        assert not net.outputs_equivariant_under(action, (6, 2), wrong)
    other = et.actions.permutations(S3, 5 - S3.table[:, ::-1])
    assert not net.outputs_equivariant_under(other, (6, 2), right)
    assert not net.outputs_equivariant_under(action, (5, 2), right)


def test_blank_inputs_do_not_make_a_pool_follow_translations():
    action, count = SHIFTS, math.prod((SIDE, SIDE))
    net = nn.Sequential(nn.GlobalAvgPool(), nn.Dense(4), nn.Relu(), nn.Dense(1))
    x = np.random.default_rng(0).standard_normal((4, SIDE, SIDE, count))
    x[:2] = 0.0  # all that is looked at first
    found = et.kernels.orbit_average(net, action).kernel(x).ntk
    np.testing.assert_allclose(found, net.kernel(x).ntk, rtol=1e-10, atol=1e-12)
