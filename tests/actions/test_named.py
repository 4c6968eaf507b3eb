"""Groups by name do the same wherever a name may stand."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents.actions import as_action

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(6, 4, 4, 1))
LABELS = RNG.normal(size=6)
CLASSES = [0, 1, 0, 1, 0, 1]
N = et.nn
NET = N.Sequential(N.Flatten(), N.Dense(8), N.Relu(), N.Dense(1))


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
def test_names_give_actions_that_respect_products(name: str, shape: tuple[int, ...], order: int) -> None:
    x = RNG.normal(size=shape)
    action = as_action("augmentation", name, shape)
    assert action.group.order == order
    action.verify(x)


@pytest.mark.parametrize(
    ("name", "shape"), [("C4", (5, 4, 4, 1)), ("D4", (5, 4, 4, 1)), ("C6", (5, 2)), ("D3", (5, 2)), ("S3", (5, 3))]
)
def test_a_name_means_to_measures_what_it_means_to_audits(name: str, shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    w = RNG.normal(size=int(np.prod(shape[1:])))
    f = lambda x: x.reshape(len(x), -1) @ w + 3
    measured = et.metrics.equivariance_error(f, name, x)
    audited = et.audit(f, name, x, off_data=False, data_test=None, resamples=50)
    np.testing.assert_allclose(
        np.sort(measured.errors[1:].mean(axis=1)), np.sort([e.error.estimate.mean for e in audited.elements]), rtol=1e-9
    )


def test_estimators_take_names_for_actions() -> None:
    rot = et.actions.image_rotations(4)
    by_name = et.InfiniteEnsemble(NET, augmentation="C4", time=10.0).fit(IMAGES, LABELS)
    by_action = et.InfiniteEnsemble(NET, augmentation=rot, time=10.0).fit(IMAGES, LABELS)
    assert by_name.get_params()["augmentation"] == "C4"
    assert by_name.augmentation_ == rot
    assert by_name.solver_ == by_action.solver_
    np.testing.assert_array_equal(by_name.predict(IMAGES), by_action.predict(IMAGES))
    flat = et.InfiniteEnsemble(NET, augmentation="C4", time=10.0, input_shape=(4, 4, 1))
    np.testing.assert_array_equal(
        flat.fit(IMAGES.reshape(6, -1), LABELS).predict(IMAGES.reshape(6, -1)), by_name.predict(IMAGES)
    )
    classifier = et.InfiniteEnsembleClassifier(NET, augmentation="D4", time=10.0).fit(IMAGES, CLASSES)
    assert classifier.augmentation_ == et.actions.image_dihedral(4)
    bagged = et.ensembles.BaggedInfiniteEnsemble(et.InfiniteEnsemble(NET, augmentation="C4", time=5.0), resamples=2)
    assert bagged.fit(IMAGES, LABELS).augmentation_ == rot


@pytest.mark.slow
def test_deep_estimators_take_names_for_actions() -> None:
    rot = et.actions.image_rotations(4)
    settings = {"members": 2, "epochs": 2, "seed": 1}
    deep = [et.DeepEnsemble(NET, augmentation=a, **settings).fit(IMAGES, LABELS).predict(IMAGES) for a in ("C4", rot)]
    np.testing.assert_array_equal(*deep)
    two = N.Sequential(N.Flatten(), N.Dense(8), N.Relu(), N.Dense(2))
    et.DeepEnsembleClassifier(two, augmentation="C4", **settings).fit(IMAGES, CLASSES)


@pytest.mark.slow
def test_questions_about_orbits_take_names_for_actions() -> None:
    rot = et.actions.image_rotations(4)
    model = et.InfiniteEnsemble(NET, augmentation="C4", time=10.0).fit(IMAGES, LABELS)
    settings = {"draws": 50, "seed": 0}
    asked = [model.orbit_statistics(a, IMAGES, **settings) for a in ("C4", rot)]
    assert str(asked[0]) == str(asked[1])
    plans = [et.plan_ensemble(model, a, IMAGES, 0.5, measure="rsd", **settings) for a in ("C4", rot)]
    assert plans[0].members == plans[1].members
    assert plans[0].augmentation_order == 4
    for measure in (et.metrics.relative_orbit_std, et.metrics.equivariance_error):
        np.testing.assert_array_equal(*(measure(model.predict, a, IMAGES).values for a in ("C4", rot)))
    scores = lambda x: x[:, :2, 0, 0]
    np.testing.assert_array_equal(
        *(et.metrics.orbit_same_predictions(scores, a, IMAGES).values for a in ("C4", rot))
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Q8", "augmentation is 'Q8'; expected C4, D4"),
        ("c4", "augmentation is 'c4'; expected .*; did you mean 'C4'"),
        ("C0", "augmentation is 'C0'; expected a number of at least 1"),
        ("SO3", "augmentation is 'SO3'; expected a finite group"),
        ("S3", "expected features"),
        ("octahedral", "expected vectors of space"),
    ],
)
def test_names_that_do_not_fit_are_refused_with_what_does(name: str, said: str) -> None:
    with pytest.raises(et.errors.InvalidArgumentError, match=said):
        et.InfiniteEnsemble(NET, augmentation=name).fit(IMAGES, LABELS)
    with pytest.raises(et.errors.InvalidArgumentError, match=said):
        et.DeepEnsemble(NET, augmentation=name, members=1, epochs=1).fit(IMAGES, LABELS)
    with pytest.raises(et.errors.InvalidArgumentError, match=said.replace("augmentation", "action")):
        et.metrics.equivariance_error(lambda x: x, name, IMAGES)
