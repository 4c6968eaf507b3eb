"""What is predicted of an input does not depend on the inputs beside it: rows and batches."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn

SIDE = 4
TURNS = et.actions.image_rotations(4)
ACTIONS = (
    None,
    TURNS,
    et.actions.image_dihedral(1),
    et.actions.translations((SIDE, SIDE)),
    et.actions.image_rotations(8),  # resampled
    et.actions.subset(TURNS, [3, 0]),
    et.actions.subset(TURNS, [2, 0]),  # a subgroup
)
MLP = nn.Sequential(nn.Flatten(), nn.Dense(8, b_std=0.3), nn.Relu(), nn.Dense(1))
EVEN = nn.Sequential(nn.Conv(8, (2, 2), padding="zero"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
AROUND = nn.Sequential(nn.Conv(8, (3, 3), padding="circular"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
GROUP = et.groups.wallpaper(4, False, (SIDE, SIDE))
FIELD = nn.Sequential(nn.Conv(8, (2, 2), padding="zero"), nn.Relu(), nn.Conv(1, (3, 3)))
DROPPED = nn.Sequential(nn.Flatten(), nn.Dense(8), nn.Relu(), nn.Dropout(0.5), nn.Dense(1))


def images(seed, n):
    """Images that fill the grid, others with empty borders, nothing at all, equal ones, small and large ones."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, SIDE, SIDE, 1))
    x[1, [0, -1]] = x[1, :, [0, -1]] = 0.0
    x[2] = x[0]
    if n > 4:
        x[3] *= 1e-3
        x[4] = 30.0 * x[4]
    return x


def alone_as_together(predict, x, tolerance=1e-9):
    """Each row of every array that is predicted, alone and among the others in two orders."""
    together, reverse = parts(predict(x)), parts(predict(x[::-1]))
    for i in range(len(x)):
        for whole, back, one in zip(together, reverse, parts(predict(x[i : i + 1])), strict=True):
            np.testing.assert_allclose(one[0], whole[i], rtol=tolerance, atol=tolerance * np.abs(whole).max())
            np.testing.assert_allclose(
                back[len(x) - 1 - i], whole[i], rtol=tolerance, atol=tolerance * np.abs(whole).max()
            )


def parts(found):
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


@st.composite
def networks(draw):
    if draw(st.integers(0, 4)) == 0:
        group = et.groups.wallpaper(draw(st.sampled_from([1, 4])), False, (SIDE, SIDE))
        width, end = draw(st.sampled_from([(2, 2), (3, 3)])), draw(st.sampled_from([nn.GroupPool(), nn.Flatten()]))
        return nn.Sequential(nn.Lift(group, 8, width), nn.Relu(), nn.GroupConv(8, width), nn.Relu(), end, nn.Dense(1))
    layers = []
    for _ in range(draw(st.integers(0, 2))):
        width, padding = draw(st.sampled_from([(1, 1), (2, 2), (3, 3)])), draw(st.sampled_from(["zero", "circular"]))
        layers += [nn.Conv(8, width, 1, padding, b_std=0.3), draw(st.sampled_from([nn.Relu(), nn.LayerNorm()]))]
    if draw(st.booleans()):
        layers += [nn.AvgPool(2, draw(st.sampled_from([1, 2])), "circular")]
    return nn.Sequential(
        *layers,
        nn.Dense(8, b_std=0.2),
        nn.Relu(),
        draw(st.sampled_from([nn.Flatten(), nn.GlobalAvgPool()])),
        nn.Dense(1),
    )


def check_drawn(net, action, settings_of, seed):
    x, test = images(seed, 5), images(seed + 1, 5)
    test[4] = x[0]  # one that was trained on
    y = np.sin(x.sum(axis=(1, 2, 3)))
    model = et.InfiniteEnsemble(net, augmentation=action, ridge=0.1, **settings_of).fit(x, y)
    alone_as_together(model.predict, test)
    if settings_of.get("solver") != "nystrom":
        alone_as_together(lambda rows: model.predict(rows, return_std=True), test)


SETTINGS = (
    {},
    {"kernel": "nngp"},
    {"time": 3.0, "standardise": True},
    *({"solver": name} for name in ("cholesky", "pcg", "nystrom")),
    {"solver": "lanczos", "time": 3.0},
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(networks(), st.sampled_from(ACTIONS), st.sampled_from(SETTINGS), st.integers(0, 2**16))
def test_many_drawn_ensembles(net, action, settings_of, seed):
    try:
        check_drawn(net, action, settings_of, seed)
    except et.errors.InvalidArgumentError as error:
        if "solver is" not in str(error):
            raise
        reject()  # problems that some solvers do not take, by name


@pytest.mark.parametrize("solver", [setting["solver"] for setting in SETTINGS if "solver" in setting])
def test_all_solvers(solver):
    time = 3.0 if solver == "lanczos" else np.inf
    check_drawn(EVEN, TURNS, {"solver": solver, "time": time}, 0)


FACES = {
    "an orbit average": lambda: et.kernels.orbit_average(EVEN, TURNS),
    "an average over translations": lambda: et.kernels.orbit_average(MLP, ACTIONS[3]),
    "random features": lambda: et.kernels.random_features(MLP, 64),
    "noise": lambda: DROPPED,
}


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "face", [pytest.param(face, marks=[pytest.mark.slow] if face == "noise" else []) for face in FACES]
)
def test_kernels_of_all_faces(face):
    net, x, test = FACES[face](), images(0, 4), images(1, 5)
    alone_as_together(lambda rows: (net.kernel(rows, x).nngp, net.kernel(rows, x).ntk), test, 1e-10)
    model = et.InfiniteEnsemble(net, ridge=0.1).fit(x, np.arange(4.0))
    alone_as_together(lambda rows: model.predict(rows, return_std=True), test)


def test_outputs_that_turn():
    x, test = images(0, 5), images(1, 5)
    rho = et.groups.cyclic(4).irreps("real")[-1]
    turning = nn.Sequential(nn.Lift(GROUP, 4, (3, 3)), nn.Relu(), nn.Readout(rho))
    alone_as_together(lambda rows: turning.kernel(rows, x).ntk, test)


@pytest.mark.slow
@pytest.mark.parametrize("action", [None, TURNS, ACTIONS[3]])
def test_fields(action):
    x, test = images(0, 4), images(1, 4)
    model = et.InfiniteEnsemble(FIELD, augmentation=action, ridge=0.1).fit(x, x[..., 0] ** 2)
    alone_as_together(lambda rows: model.predict(rows, return_std=True), test)


@pytest.mark.parametrize("calibrate", [False, True])
def test_classifiers(calibrate):
    x, test = images(0, 6), images(1, 5)
    model = et.InfiniteEnsembleClassifier(EVEN, augmentation=TURNS, ridge=0.1, calibrate=calibrate)
    alone_as_together(model.fit(x, np.arange(6) % 2).predict_proba, test)


@pytest.mark.parametrize("net", [EVEN, pytest.param(MLP, marks=pytest.mark.slow)])
def test_orbits(net):
    x, test, y = images(0, 6), images(1, 5), np.arange(6.0) % 2
    model = et.InfiniteEnsemble(net, augmentation=TURNS, ridge=0.1).fit(x, y)
    alone_as_together(model.predict_orbit_means, test)


@pytest.mark.parametrize("net", [EVEN, pytest.param(MLP, marks=pytest.mark.slow)])
def test_files_in_parts(net, tmp_path):
    x, test = images(0, 5), images(1, 5)
    model = et.InfiniteEnsemble(net, augmentation=TURNS, ridge=0.1).fit(x, np.arange(5.0))
    mean, std = model.predict(test, return_std=True)
    for rows in (1, 2, 64):
        path = et.ensembles.predict_to_file(model, test, tmp_path / f"{rows}.npz", rows=rows, return_std=True)
        with np.load(path) as found:
            np.testing.assert_allclose(found["mean"].reshape(mean.shape), mean, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(found["std"].reshape(std.shape), std, rtol=1e-9, atol=1e-11)


def test_finite_ensembles():
    x, test = images(0, 4).astype(np.float32), images(1, 5).astype(np.float32)
    model = et.DeepEnsemble(MLP, members=2, epochs=2, augmentation=TURNS).fit(x, np.arange(4.0))
    alone_as_together(lambda rows: model.predict(rows, return_std=True), test, 1e-5)


SIGNS = et.actions.channels(et.groups.cyclic(2), [[[1.0]], [[-1.0]]])


def test_rotations_are_sampled_as_for_the_training_inputs():
    x, test = np.random.default_rng(0).standard_normal((2, 4, 9, 1)) / (1 + np.arange(9))[:, None]
    test[1] *= 3
    net = nn.Sequential(
        nn.SphereLift(et.groups.so3(3), 8, b_std=0.1, tolerance=1e-3), nn.Erf(), nn.GroupPool(), nn.Dense(1)
    )
    fixed = net.sampled_for(x)
    assert (fixed.kernel(x).ntk == net.kernel(x).ntk).all()
    alone_as_together(lambda rows: fixed.kernel(rows, x).ntk, test)
    assert fixed.sampled_for(test) is fixed
    for around in (lambda net: et.kernels.orbit_average(net, SIGNS), et.ensembles.TangentPrior):
        assert around(net).sampled_for(x) == around(fixed)
    assert EVEN.sampled_for(images(0, 3)) is EVEN
    model = et.InfiniteEnsemble(net, ridge=0.1).fit(x, np.arange(4.0))
    alone_as_together(model.predict, test)
