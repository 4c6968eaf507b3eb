"""`standardise=True`: what is predicted has no unit of the inputs in it, and stays equivariant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import equitangents as et
from equitangents.ensembles.standardisation import fitted_standardisation
from equitangents.errors import NotPositiveDefiniteError

RNG = np.random.default_rng(0)
X, Q = RNG.normal(size=(12, 4)), RNG.normal(size=(5, 4))
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
NET = et.nn.Sequential(et.nn.Dense(8, W_std=1.4, b_std=0.3), et.nn.Relu(), et.nn.Dense(1))
CONV = et.nn.Sequential(et.nn.Conv(4, 3, b_std=0.2), et.nn.Relu(), et.nn.Flatten(), et.nn.Dense(1))
IMAGES, NEW = RNG.normal(size=(6, 4, 4, 2)), RNG.normal(size=(3, 4, 4, 2))
MEANS = {"epochs": 3, "members": 2, "learning_rate": 0.1}


def infinite(net=NET, **more):
    return et.InfiniteEnsemble(net, ridge=1e-2, standardise=True, **more)


@settings(max_examples=8, deadline=None)
@given(a=st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3), b=st.floats(-1e3, 1e3))
def test_the_unit_of_inputs_has_no_part_in_predictions(a, b):
    here, there = infinite().fit(X, Y), infinite().fit(a * X + b, Y)
    sign = np.sign(a)
    # inputs times −1 are other inputs: the deviation is positive
    wanted = here if sign > 0 else infinite().fit(-X, Y)
    for mine, its in zip(
        there.predict(a * Q + b, return_std=True), wanted.predict(sign * Q, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-8)


def test_it_is_the_ensemble_of_standardised_inputs():
    S = lambda x: (x - X.mean(axis=0)) / X.std(axis=0)
    model, plain = infinite().fit(X, Y), et.InfiniteEnsemble(NET, ridge=1e-2).fit(S(X), Y)
    np.testing.assert_allclose(model.predict(Q), plain.predict(S(Q)), rtol=1e-9)
    np.testing.assert_allclose(
        model.sample(Q, 3, key=jax.random.key(1)), plain.sample(S(Q), 3, key=jax.random.key(1)), rtol=1e-6
    )
    np.testing.assert_allclose(model.leave_one_out_.residuals, plain.leave_one_out_.residuals, rtol=1e-8)
    np.testing.assert_allclose(model.predict(Q, [1.0, 2.0]), plain.predict(S(Q), [1.0, 2.0]), rtol=1e-9)
    tuned = model.tune({"ridge": [1e-3, 1e-1], "standardise": [True, False]})
    assert {c.params["standardise"] for c in tuned.candidates} == {True, False}
    assert (tuned.best.standardisation_ is not None) is tuned.best.standardise


def test_channels_are_over_samples_and_positions_and_constant_ones_are_only_shifted():
    x = np.concatenate([3 + 5 * IMAGES, np.full((6, 4, 4, 1), 0.1)], axis=-1)
    found = fitted_standardisation(x)
    z = found(x)
    np.testing.assert_allclose(z[..., :2].mean(axis=(0, 1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(z[..., :2].std(axis=(0, 1, 2)), 1, rtol=1e-12)
    assert not z[..., 2].any()
    assert found.scale[2] == 1
    assert found.how == "each channel"
    assert found(x.astype(np.float32)).dtype == np.float32
    with pytest.raises(et.errors.ShapeError, match=r"expected \(\.\.\., 3\); the channels of the standardisation"):
        found(x[..., :2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_channel_that_varies_by_rounding_alone_is_constant(dtype):
    """0.1 + 0.2 beside 0.3: not a channel of standard deviation 1."""
    x = np.array([[0.1 + 0.2, 1.0], [0.3, 2.0], [0.3, 4.0]], dtype)
    x[0, 0] = np.nextafter(x[1, 0], dtype(1))
    assert np.ptp(x[:, 0]) > 0
    assert fitted_standardisation(x).scale[0] == 1
    assert np.abs(fitted_standardisation(x)(x)[:, 0]).max() < 1e-6
    x[:, 0] = 1 + 10 * np.finfo(dtype).eps * np.arange(3)  # few digits, but no rounding of one number
    assert fitted_standardisation(x).scale[0] < 1e-4


PLANE = et.actions.linear(et.groups.cyclic(4), [np.linalg.matrix_power([[0, -1], [1, 0]], g) for g in range(4)])
VECTORS = 2 + 3 * RNG.normal(size=(12, 2))
ACTIONS = {
    "turns": (et.actions.image_rotations(4), 1 + 5 * IMAGES, "each channel"),
    "channels change places": (et.actions.as_action("action", "S4", X.shape), 7 + X, "all channels together"),
    "what is cut is zero": (et.actions.image_rotations(4, mask="circle"), 1 + IMAGES, "each channel, not shifted"),
    "vectors turn": (PLANE, VECTORS, "all channels together, not shifted"),
    "some of the turns": (et.actions.subset(PLANE, [0, 1]), VECTORS, "all channels together, not shifted"),
}


@pytest.mark.parametrize(("action", "x", "how"), ACTIONS.values(), ids=ACTIONS)
def test_it_commutes_with_the_augmentation(action, x, how):
    found = fitted_standardisation(x, augmentation=action)
    assert found.how == how
    whole = getattr(action, "action", action)
    for g in range(min(whole.group.order, 5)):
        np.testing.assert_allclose(found(whole(g, x)), whole(g, found(x)), atol=1e-9)


def test_what_is_no_linear_action_is_refused():
    group = et.groups.cyclic(2)
    shifted = et.actions.from_function(group, lambda g, x: x if g == 0 else 1 - x)
    with pytest.raises(et.errors.InvalidArgumentError, match="for an augmentation that is not linear"):
        infinite(augmentation=shifted).fit(X, Y)


@pytest.mark.parametrize("name", ["turns", "channels change places", "vectors turn"])
def test_augmented_means_stay_equivariant(name):
    action, x, _ = ACTIONS[name]
    y = np.sin(np.arange(float(len(x))))
    net = et.nn.Sequential(et.nn.Flatten(), *NET.layers) if x.ndim > 2 else NET
    model = infinite(net, augmentation=action, time=7.0).fit(x, y)
    expected = model.predict(x[:3])
    for g in range(min(4, action.group.order)):
        np.testing.assert_allclose(model.predict(np.asarray(action(g, x[:3]))), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_orbit_means(x[:3])[..., 0], np.tile(expected, (action.group.order, 1)).T)


def test_networks_that_read_vectors_are_given_vectors_and_those_that_read_coordinates_are_refused():
    vectors = et.nn.Sequential(et.nn.FeatureVector("SO(2)", "1x0+1x1"), et.nn.SteerableDense("1x0"))
    numbers = et.nn.Sequential(et.nn.FeatureVector("SO(2)", "3x0"), et.nn.SteerableDense("1x0"))
    x = RNG.normal(size=(5, 3))
    assert fitted_standardisation(x, vectors).how == "all channels together, not shifted"
    assert fitted_standardisation(x, numbers).how == "each channel"
    points = et.nn.Sequential(et.nn.PointCloud("SO(2)"), et.nn.SteerableConv("1x0", radii=(1.0,), width=0.5))
    with pytest.raises(et.errors.InvalidArgumentError, match="coordinates"):
        fitted_standardisation(RNG.normal(size=(5, 4, 2)), points)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "model",
    [
        infinite(),
        et.InfiniteEnsembleClassifier(NET, ridge=1e-2, standardise=True),
        et.DeepEnsemble(NET, standardise=True, dtype="float64", **MEANS),
        pytest.param(
            et.DeepEnsembleClassifier(
                et.nn.Sequential(*NET.layers[:-1], et.nn.Dense(2)), standardise=True, dtype="float64", **MEANS
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_estimator_predicts_the_same_in_every_unit(model, tmp_path):
    y = (Y > 0).astype(int) if hasattr(model, "predict_proba") else Y
    ask = lambda fitted, x: fitted.predict_proba(x) if hasattr(fitted, "predict_proba") else fitted.predict(x)
    here, there = clone(model).fit(X, y), clone(model).fit(255 * X + 9, y)
    np.testing.assert_allclose(ask(there, 255 * Q + 9), ask(here, Q), rtol=1e-6, atol=1e-9)
    assert abs(ask(there, Q) - ask(here, Q)).max() > 1e-3  # which a standardisation left out would not show
    if not hasattr(model, "save"):
        return
    assert clone(model).get_params()["standardise"] is True
    there.save(tmp_path / "m")
    loaded = type(model).load(tmp_path / "m")
    np.testing.assert_array_equal(ask(loaded, Q), ask(there, Q))
    if not isinstance(model, et.InfiniteEnsemble):
        return
    assert np.isfinite(cross_val_score(clone(model), X, y, cv=3)).all()
    written = et.ensembles.predict_to_file(there, 255 * Q + 9, tmp_path / "p.npz", rows=2)
    found = np.load(written)["mean"]
    other = et.ensembles.predict_to_file(here, Q, tmp_path / "q.npz", rows=2)
    np.testing.assert_allclose(found, np.load(other)["mean"], rtol=1e-6, atol=1e-9)


def test_members_and_recorded_outputs_are_of_standardised_inputs():
    model = et.DeepEnsemble(NET, standardise=True, dtype="float64", **MEANS)
    model.fit(255 * X + 9, Y, record={"new": 255 * Q + 9})
    np.testing.assert_allclose(model.recorded_["new"][-1], model.predict_members(255 * Q + 9), rtol=1e-9)
    net, params = model.member(1)
    own = net.apply(params, jnp.asarray(model.standardisation_(255 * Q + 9)))
    np.testing.assert_allclose(own, model.predict_members(255 * Q + 9)[1], rtol=1e-5)
    more = clone(model).set_params(members=3).fit(255 * X + 9, Y)
    np.testing.assert_allclose(
        model.extend(3, 255 * X + 9, Y, record={"new": 255 * Q + 9}).predict_members(Q),
        more.predict_members(Q),
        rtol=1e-6,
    )


def test_a_file_with_a_wrong_standardisation_is_refused(tmp_path):
    from equitangents.ensembles.saved_objects import restored, state_of
    from equitangents.ensembles.standardisation import Standardisation

    model = infinite().fit(X, Y)
    for shift, scale in (([0.0] * 4, [0.0] * 4), ([0.0] * 3, [1.0] * 4), ([np.nan] * 4, [1.0] * 4), (0.0, 1.0)):
        with pytest.raises(ValueError, match="do not fit"):
            restored(Standardisation, {"shift": np.array(shift), "scale": np.array(scale), "how": "each channel"})
    short = Standardisation(np.zeros(1), np.ones(1), "each channel")
    with pytest.raises(ValueError, match="do not fit"):
        restored(et.InfiniteEnsemble, state_of(model) | {"standardisation_": short})
    with pytest.raises(ValueError, match="do not fit"):
        restored(et.InfiniteEnsemble, state_of(model) | {"standardisation_": "each channel"})


@pytest.mark.parametrize(("factor", "told"), [(1 / 20, False), (255, True), (1e-3, True), (0, False)])
def test_inputs_far_from_unit_scale_are_told_of_once(factor, told, caplog):
    et.InfiniteEnsemble(NET, ridge=1e-2).fit(factor * X, Y)
    assert sum("far from 1" in record.message for record in caplog.records) == told
    caplog.clear()
    infinite().fit(factor * X, Y)
    assert not any("far from 1" in record.message for record in caplog.records)


@pytest.mark.parametrize("x", [X[:1], np.ones((4, 4)), np.broadcast_to(X[0], (5, 4))])
def test_standardised_inputs_that_are_all_equal_are_told_of(x, caplog):
    without_bias = et.nn.Sequential(et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(1))
    for kind in (et.InfiniteEnsemble, et.InfiniteEnsembleClassifier)[: len(x)]:  # one input has one class
        with pytest.raises(NotPositiveDefiniteError):
            kind(without_bias, standardise=True).fit(x, np.arange(len(x)) % 2)
    caplog.clear()
    infinite().fit(x, np.ones(len(x)))  # biases and a ridge give the mean of the targets
    assert sum("they are all equal" in record.message for record in caplog.records) == 1
    with pytest.raises(NotPositiveDefiniteError, match="eigenvalue"):
        et.InfiniteEnsemble(without_bias).fit(0 * x, np.arange(len(x)))


def test_functions_of_ones_own_are_seen_to_commute_on_all_data_not_on_a_sample():
    group = et.groups.cyclic(2)
    flips = et.actions.from_function(group, lambda g, x: -x if g else x)
    folded = et.actions.from_function(group, lambda g, x: np.where(np.abs(x) < 200, -x, x) if g else x)
    x = RNG.normal(size=(100, 4)) * 15
    x[50, 0] = 1000.0
    assert fitted_standardisation(x, NET, flips).how.endswith("not shifted")
    swaps = et.actions.channels(group, [[0, 1, 2, 3], [1, 0, 3, 2]])
    assert fitted_standardisation(x, NET, swaps).how == "all channels together"
    with pytest.raises(et.errors.InvalidArgumentError, match="not linear"):
        fitted_standardisation(x, NET, folded)
    later = et.actions.from_function(et.groups.cyclic(3), lambda g, x: np.tanh(x) if g == 2 else x)
    with pytest.raises(et.errors.InvalidArgumentError, match="not linear"):
        fitted_standardisation(x, NET, later)  # of all elements, not of generators alone
