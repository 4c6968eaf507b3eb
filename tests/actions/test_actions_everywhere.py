"""Groups by name, and actions that users write, of a finite group or of all rotations, are actions everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents import groups
from equitangents.actions import Action, CompactAction, as_action, from_function, image_rotations, sampled
from equitangents.errors import InvalidTypeError, NotAnActionError
from equitangents.validation import check_array

RNG = np.random.default_rng(0)
IMAGES, ROWS, VECTORS = RNG.normal(size=(6, 4, 4, 1)), RNG.normal(size=(6, 4)), RNG.normal(size=(6, 3))
LABELS, CLASSES = RNG.normal(size=6), [0, 1, 0, 1, 0, 1]
N = et.nn
NET = N.Sequential(N.Flatten(), N.Dense(8, b_std=0.3), N.Relu(), N.Dense(1))


class SignFlips(Action):
    """C2 turns the sign of every feature; a subclass as a user would write it."""

    def __init__(self):
        vars(self).update(group=groups.cyclic(2), name="sign flips")

    def _check_signals(self, x):
        return check_array("x", x, rank=2)

    def _act(self, g, x):
        return -x if g else x

    def _key(self):
        return ()


class Tensors(CompactAction):
    """SO(3) on matrices (N, 3, 3), x ↦ R x Rᵀ."""

    def __init__(self, bandlimit):
        vars(self).update(group=groups.so3(bandlimit), name="tensors")

    def _check_signals(self, x):
        return check_array("x", x, rank=3)

    def _act(self, g, x):
        return g @ x @ g.T

    def _key(self):
        return ()


FLIPS = SignFlips()
CLOUDS = from_function(groups.so3(3), lambda g, x: x @ g.T.astype(x.dtype), name="turned clouds")
TURNS, SIGNS = et.actions.rotations(CLOUDS.group), et.actions.linear(FLIPS.group, [np.eye(4), -np.eye(4)])
PAIRS = {  # an action in two ways, and what it acts on
    "by name": ("C4", image_rotations(4), IMAGES),
    "own, finite": (FLIPS, SIGNS, ROWS),
    "own, all rotations": (CLOUDS, TURNS, VECTORS),
    "nodes of own": (sampled(CLOUDS), sampled(TURNS), VECTORS),
    "elements of own": (sampled(CLOUDS, 4), sampled(TURNS, 4), VECTORS),
}
FINITE, ENSEMBLES = ("by name", "own, finite"), ("by name", "own, finite", "nodes of own", "elements of own")


def uneven(x):
    """A function that every element changes."""
    return x.reshape(len(x), -1)[:, 2] ** 3 + 2


def fitted(action, x, **settings):
    return et.InfiniteEnsemble(NET, augmentation=action, time=10.0, **settings).fit(x, LABELS)


def classified(action, x):
    return et.InfiniteEnsembleClassifier(NET, augmentation=action, time=10.0).fit(x, CLASSES).predict_proba(x)


def deep(action, x):
    return et.DeepEnsemble(NET, augmentation=action, members=2, epochs=2, seed=1).fit(x, LABELS).predict(x)


def classified_deeply(action, x):
    two = N.Sequential(*NET.layers[:-1], N.Dense(2))
    model = et.DeepEnsembleClassifier(two, augmentation=action, members=2, epochs=2, seed=1)
    return model.fit(x, CLASSES).predict_proba(x)


def planned(action, x):
    plan = et.plan_ensemble(fitted(action, x), action, x, 0.5, draws=50, seed=0)
    return [plan.order, plan.augmentation_order, plan.members or 0]


USES = {
    "errors": (lambda a, x: et.metrics.equivariance_error(uneven, a, x).values, PAIRS.keys() - set(ENSEMBLES[2:])),
    "spreads": (lambda a, x: et.metrics.relative_orbit_std(uneven, a, x).values, PAIRS.keys() - set(ENSEMBLES[2:])),
    "audits": (lambda a, x: et.audit(uneven, a, x, off_data=False).errors, PAIRS.keys() - set(ENSEMBLES[2:])),
    "orbit averages": (lambda a, x: et.kernels.orbit_average(NET, as_action("a", a, x.shape)).kernel(x).ntk, FINITE),
    "infinite ensembles": (lambda a, x: fitted(a, x).predict(x), ENSEMBLES),
    "classifiers": (classified, FINITE),
    "deep ensembles": (deep, (*FINITE, "elements of own")),
    "deep classifiers": (classified_deeply, ("by name",)),
    "plans": (planned, ("by name",)),
}
SLOW = ("audits", "deep ensembles", "deep classifiers", "plans")


@pytest.mark.parametrize(
    ("use", "pair"),
    [
        pytest.param(use, pair, marks=pytest.mark.slow if use in SLOW else ())
        for use, (_, pairs) in USES.items()
        for pair in sorted(pairs)
    ],
)
def test_an_action_given_in_two_ways_is_one(use, pair):
    first, second, x = PAIRS[pair]
    found, expected = (np.asarray(USES[use][0](action, x)) for action in (first, second))
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_plans_take_own_actions():  # roots of singular matrices, and so draws, differ where kernels do by rounding
    assert planned(FLIPS, ROWS)[:2] == [2, 2]


@pytest.mark.slow
def test_questions_about_orbits_take_names():
    asked = [fitted("C4", IMAGES).orbit_statistics(a, IMAGES, draws=50, seed=0) for a in ("C4", image_rotations(4))]
    assert str(asked[0]) == str(asked[1])
    scores = lambda x: x[:, :2, 0, 0]
    same = (et.metrics.orbit_same_predictions(scores, a, IMAGES).values for a in ("C4", image_rotations(4)))
    np.testing.assert_array_equal(*same)


def test_estimators_remember_the_name_and_the_action_that_it_is():
    model = et.InfiniteEnsemble(NET, augmentation="C4", time=10.0).fit(IMAGES, LABELS)
    assert model.get_params()["augmentation"] == "C4"
    assert model.augmentation_ == image_rotations(4)
    flat = et.InfiniteEnsemble(NET, augmentation="C4", time=10.0, input_shape=(4, 4, 1))
    rows = IMAGES.reshape(6, -1)
    np.testing.assert_array_equal(flat.fit(rows, LABELS).predict(rows), model.predict(IMAGES))


@pytest.mark.parametrize(
    ("name", "shape", "order"),
    [
        ("C4", (3, 4, 4, 2), 4),
        ("C8", (3, 6, 6, 1), 8),
        ("D8", (3, 6, 6, 1), 16),
        ("D4", (3, 4, 4, 2), 8),
        ("C5", (3, 5), 5),
        ("C6", (3, 2), 6),
        ("D3", (3, 7, 2), 6),
        ("S3", (2, 3), 6),
        ("S_n", (2, 4), 24),
        ("S_n", (2, 3, 5), 6),
        ("octahedral", (4, 3), 24),
        ("icosahedral", (4, 5, 3), 60),
        ("translations", (2, 3, 4, 1), 12),
    ],
)
def test_names_give_actions_that_respect_products(name, shape, order):
    action = as_action("augmentation", name, shape)
    assert action.group.order == order
    action.verify(RNG.normal(size=shape))


@pytest.mark.parametrize(
    ("name", "shape"), [("C4", (5, 4, 4, 1)), ("D4", (5, 4, 4, 1)), ("C6", (5, 2)), ("D3", (5, 2)), ("S3", (5, 3))]
)
def test_a_name_means_to_measures_what_it_means_to_audits(name, shape):
    x = RNG.normal(size=shape)
    w = RNG.normal(size=int(np.prod(shape[1:])))
    f = lambda x: x.reshape(len(x), -1) @ w + 3
    measured = et.metrics.equivariance_error(f, name, x)
    audited = et.audit(f, name, x, off_data=False, resamples=50)
    of_each = [e.error.estimate.mean for e in audited.elements]
    np.testing.assert_allclose(np.sort(measured.errors[1:].mean(axis=1)), np.sort(of_each), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Q8", "augmentation is 'Q8'; expected C4, D4"),
        ("c4", "augmentation is 'c4'; expected .*; did you mean 'C4'"),
        ("C0", "augmentation is 'C0'; expected a number of at least 1"),
        ("SO3", "augmentation is 'SO3'; expected a finite group"),
        ("S3", "expected features"),
        ("octahedral", "expected vectors of space"),
    ],
)
def test_names_that_do_not_fit_are_refused_with_what_does(name, message):
    with pytest.raises(et.errors.InvalidArgumentError, match=message):
        et.InfiniteEnsemble(NET, augmentation=name).fit(IMAGES, LABELS)
    with pytest.raises(et.errors.InvalidArgumentError, match=message):
        et.DeepEnsemble(NET, augmentation=name, members=1, epochs=1).fit(IMAGES, LABELS)
    with pytest.raises(et.errors.InvalidArgumentError, match=message.replace("augmentation", "action")):
        et.metrics.equivariance_error(lambda x: x, name, IMAGES)


def test_verdicts_and_errors_of_own_actions_are_those_of_what_they_do():
    assert et.audit(lambda x: (x**2).sum(1), FLIPS, ROWS, off_data=False).verdict == "equivariant"
    assert et.audit(lambda x: x.sum(1) ** 3, FLIPS, ROWS, off_data=False).verdict == "broken"
    assert et.audit(lambda x: x**3, FLIPS, ROWS, output_action=FLIPS, off_data=False).verdict == "equivariant"
    errors = et.metrics.equivariance_error(lambda x: x.sum(1) ** 3, FLIPS, ROWS).values
    np.testing.assert_allclose(errors, 1)  # (0 + 2)/2
    trace, x = lambda x: np.trace(x, axis1=1, axis2=2), VECTORS[:, :, None] * VECTORS[:, None]
    assert et.metrics.equivariance_error(trace, Tensors(2), x).mean < 1e-12


@pytest.mark.slow
def test_audits_take_own_actions_of_outputs_and_beside_kinds_by_name():
    x, tensors = VECTORS[:, :, None] * VECTORS[:, None], Tensors(2)
    for output in (tensors, "matrices"):
        assert et.audit(lambda x: x @ x, tensors, x, output_action=output, off_data=False).verdict == "equivariant"
    assert et.audit(np.square, tensors, x, output_action=tensors, off_data=False).verdict == "broken"


def test_what_sums_over_all_elements_says_that_it_cannot():
    for asked in (
        lambda: et.plan_ensemble(fitted(None, VECTORS), CLOUDS, VECTORS, target=0.5),
        lambda: et.kernels.orbit_average(NET, CLOUDS),
        lambda: fitted(CLOUDS, VECTORS),
    ):
        with pytest.raises(InvalidTypeError, match="a finite group"):
            asked()


def test_verify_finds_what_is_no_action():
    CLOUDS.verify(VECTORS)
    with pytest.raises(NotAnActionError, match="is off by"):
        from_function(groups.so3(1), lambda g, x: x @ g).verify(VECTORS)
    with pytest.raises(NotAnActionError, match=r"expected ρ\(e\) x = x"):
        from_function(groups.so3(1), lambda g, x: x * np.nan).verify(VECTORS)


def test_angles_of_the_plane():
    def turned(g, x):
        c, s = np.cos(np.radians(g)), np.sin(np.radians(g))
        return x @ np.array([[c, s], [-s, c]])

    action, x = from_function(groups.so2(3), turned, name="turned pairs"), ROWS[:, :2]
    action.verify(x)
    first = lambda x: x[:, 0] ** 2  # r²(1 + cos 2φ)/2: mean r²/2, standard deviation r²/√8
    np.testing.assert_allclose(et.metrics.relative_orbit_std(first, action, x).values, np.sqrt(0.5))
    assert et.audit(first, action, x, off_data=False).verdict == "broken"
    assert et.audit(lambda x: (x**2).sum(1), action, x, off_data=False).verdict == "equivariant"


def test_permutations_of_many_points_are_drawn():
    action = from_function(groups.permutations(9), lambda p, x: x[:, np.argsort(p)], name="permuted features")
    x = RNG.normal(size=(5, 9))
    action.verify(x)
    assert et.audit(lambda x: np.sort(x).sum(1), action, x, off_data=False).verdict == "equivariant"
    with pytest.raises(InvalidTypeError, match=r"^action is of .*; expected a group with nodes"):
        et.metrics.equivariance_error(uneven, action, x)
    assert sampled(action, 3).orbit(x).shape == (3, 5, 9)
