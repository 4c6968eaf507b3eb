"""Inference: the measured learning rate, the source's loss with its penalty, early stopping."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import equitangents as et
from equitangents.errors import EquitangentsError, NotFiniteError
from equitangents.kernels.tangent import tangent_kernel
from equitangents_studies.systems import descent
from equitangents_studies.systems.descent import largest_eigenvalue
from equitangents_studies.systems.transformations import Textures

SHAPE = (4, 3)
NET = et.systems.architecture("LCN", 1, 4, outputs=3)


@pytest.fixture(scope="module")
def data() -> Textures:
    return et.systems.textures(24, SHAPE, classes=3)


def members(seed: int, count: int, dtype: str = "float64") -> Any:
    """Members' initial parameters, stacked, as `DeepEnsemble` documents them."""
    keys = [jax.random.split(jax.random.fold_in(jax.random.key(seed), i))[0] for i in range(count)]
    return jax.tree.map(lambda *a: np.stack(a), *[NET.init(key, SHAPE, dtype) for key in keys])


def member(params: Any, i: int) -> Any:
    return jax.tree.map(lambda a: a[i], params)


def tangent(samples: int) -> tuple:
    """Parameters, inputs, and the largest eigenvalue of their tangent kernel over the number of inputs."""
    x = np.random.default_rng(0).standard_normal((samples, *SHAPE))
    params = member(members(0, 1), 0)
    with jax.enable_x64(True):
        kernel = np.asarray(tangent_kernel(NET.apply, params, x, None, "full"))
    kernel = np.moveaxis(kernel, 2, 1).reshape(3 * samples, 3 * samples)
    return params, x, np.linalg.eigvalsh(kernel)[-1] / samples


@pytest.mark.slow
@pytest.mark.parametrize("samples", [40, 5])
def test_the_largest_eigenvalue_is_that_of_the_tangent_kernel_over_the_number_of_inputs(samples: int) -> None:
    params, x, exact = tangent(samples)
    assert abs(largest_eigenvalue(NET, params, x) - exact) <= 1e-4 * exact


def test_few_steps_stay_below() -> None:
    params, x, exact = tangent(12)
    assert 0 < largest_eigenvalue(NET, params, x, steps=3) < exact


def test_an_eigenvalue_of_what_is_not_finite_is_refused() -> None:
    params = jax.tree.map(lambda a: np.full_like(a, np.nan), member(members(0, 1), 0))
    with pytest.raises(NotFiniteError):
        largest_eigenvalue(NET, params, np.ones((4, *SHAPE)))


def test_learning_rates_are_c_times_two_over_the_largest_eigenvalue(data: Any) -> None:
    params = members(0, 2)
    rates = et.systems.inference("NN+").learning_rates(NET, params, data.x)
    exact = [8 * 2 / largest_eigenvalue(NET, member(params, i), data.x) for i in range(2)]
    assert np.max(np.abs(rates / exact - 1)) <= 1e-12


def test_nn_and_nn_plus_are_those_of_the_source() -> None:
    nn, plus = et.systems.inference("NN"), et.systems.inference("NN+")
    assert (nn.c, nn.weight_decay, nn.momentum, nn.batch_size, nn.stop_at) == (1, 0, 0.9, 40, 1)
    assert (plus.c, plus.weight_decay) == (8, 1e-7)


def test_updates_go_against_velocity_which_the_gradient_and_the_penalty_change() -> None:
    rule, at, gradient = descent._rule(0.5, 0.1), jnp.array([2.0, -1.0]), jnp.array([0.5, 0.25])
    state = (*rule.init(at)[:-1], descent._Rate(jnp.array(0.3)))
    for velocity in (gradient + 0.1 * at, 1.5 * (gradient + 0.1 * at)):
        step, state = rule.update(gradient, state, at)
        np.testing.assert_allclose(step, -0.3 * velocity, rtol=1e-6)


@pytest.mark.slow
def test_steps_are_those_of_momentum_on_the_source_s_loss(data: Any) -> None:
    """(1/2KN) Σ |f − y|² + (λ/2) Σ |θ|², written out; one batch of all samples."""
    decay, momentum, epochs = 0.05, 0.5, 3
    learning = et.systems.inference(
        "NN", weight_decay=decay, momentum=momentum, epochs=epochs, learning_rate=0.3, stop_at=None,
        dtype="float64",
    )  # fmt: skip
    fitted = et.systems.System("I", NET, learning, seed=3).fit(data.x, data.labels)
    with jax.enable_x64(True):
        y = jnp.eye(3)[data.labels] - 1 / 3

        def loss(params: Any) -> Any:
            penalty = sum(jnp.sum(a**2) for a in jax.tree.leaves(params)) * decay / 2
            return jnp.sum((NET.apply(params, data.x) - y) ** 2) / (2 * 3 * len(y)) + penalty

        params = member(members(3, 1), 0)
        velocity = jax.tree.map(np.zeros_like, params)
        gradient = jax.jit(jax.grad(loss))
        for _ in range(epochs):
            velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradient(params))
            params = jax.tree.map(lambda p, v: p - 0.3 * v, params, velocity)
    expected, trained = jax.tree.leaves(params), jax.tree.leaves(fitted.trained.params)
    assert np.max([np.max(np.abs(a[0] - np.asarray(b))) for a, b in zip(trained, expected, strict=True)]) <= 1e-12


@pytest.mark.slow
def test_a_member_stops_at_full_training_accuracy_and_others_go_on(data: Any) -> None:
    learn = lambda count: et.systems.inference("NN", members=count, epochs=60, batch_size=8, learning_rate=0.3)
    many = et.systems.System("I", NET, learn(5)).fit(data.x, data.labels)
    first = et.systems.System("I", NET, learn(2)).fit(data.x, data.labels)
    epochs = many.trained.epochs
    assert np.ptp(epochs) > 0
    done = epochs < 60
    assert done.any()
    assert np.min(many.trained.accuracies[done]) == 1
    assert np.array_equal(many.member_scores(data.x, data.labels), many.trained.accuracies)
    assert np.array_equal(many.predict_members(data.x)[:2], first.predict_members(data.x))
    early = int(np.argmin(epochs))  # the others went on after it
    shorter = et.systems.System("I", NET, et.systems.inference(
        "NN", members=early + 1, epochs=int(epochs[early]), batch_size=8, learning_rate=0.3, stop_at=None)
    ).fit(data.x, data.labels)  # fmt: skip
    assert np.array_equal(shorter.predict_members(data.x)[early], many.predict_members(data.x)[early])


@pytest.mark.slow
def test_accuracies_on_other_data_are_noted_after_every_epoch(data: Any) -> None:
    learning = et.systems.inference("NN", members=2, epochs=4, batch_size=8, learning_rate=0.3, stop_at=None)
    fitted = et.systems.System("O(3)^d", NET, learning).fit(data.x, data.labels, watch=(data.x, data.labels))
    assert fitted.trained.watched.shape == (4, 2)
    assert np.array_equal(fitted.trained.watched[-1], fitted.trained.accuracies)


def test_a_learning_rate_past_the_bound_of_momentum_is_said_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    class NotTrainedError(Exception):
        pass

    def stop(*arguments: Any, **keywords: Any) -> None:
        raise NotTrainedError

    monkeypatch.setattr(descent, "train", stop)
    x = np.random.default_rng(0).standard_normal((8, *SHAPE))
    system = et.systems.System("I", et.systems.architecture("FCN", 1, 4), "NN+")
    with pytest.raises(NotTrainedError), pytest.warns(ConvergenceWarning, match="stable below"):
        system.fit(x, np.arange(8) % 2)
    with pytest.raises(NotTrainedError):
        system.fit(x, np.arange(8))


def test_kernels_predict_as_the_infinite_ensemble_does(data: Any) -> None:
    for name, kernel in (("NTK", "ntk"), ("NNGP", "nngp")):
        fitted = et.systems.System("I", NET, name).fit(data.x, data.labels)
        y = np.eye(3)[data.labels] - 1 / 3
        expected = et.InfiniteEnsemble(NET, kernel=kernel).fit(data.x, y).predict(data.x[:5] + 0.1)
        assert np.max(np.abs(fitted.predict(data.x[:5] + 0.1) - expected)) <= 1e-12


def test_labels_may_be_texts_and_targets_numbers(data: Any) -> None:
    names = np.array(["a", "b", "c"])[data.labels]
    fitted = et.systems.System("P(3d)", NET, "NTK").fit(data.x, names)
    assert fitted.score(data.x, names) == 1
    assert fitted.score(data.x, np.full(24, "d")) == 0
    numbers = et.systems.System("I", NET, "NTK").fit(data.x, data.x[:, 0, 0])
    assert np.max(np.abs(numbers.predict(data.x)[:, 0] - data.x[:, 0, 0])) <= 1e-9
    with pytest.raises(EquitangentsError, match="labels"):
        numbers.score(data.x, data.labels)


WIDE = et.systems.System("I", NET, "NTK")
WATCHED = et.systems.System("I", NET, et.systems.inference("NN", epochs=1))
SETTINGS = {
    "c": (0, "a", True), "momentum": (1, None), "epochs": (0,), "stop_at": (2, "x"), "weight_decay": ("x", np.inf),
    "learning_rate": ("fast", np.ones(2), np.inf), "dtype": ("int8",),
}  # fmt: skip


def score(x: Any, y: Any, labels: Any) -> None:
    WIDE.fit(x, y).score(x, labels)


@pytest.mark.parametrize(("call", "said"), [
    (lambda x, y: score(x, y, y[:, None]), r"y has shape \(24, 1\)"),
    (lambda x, y: score(x, y, y[:1]), "x has length 24; expected 1"),
    (lambda x, y: score(x, y, y[:3]), "x has length 24; expected 3"),
    (lambda x, y: score(x, y, y[0]), r"y has shape \(\)"), (lambda x, y: score(x, y, y.astype(str)), "fitted to"),
    (lambda x, y: score(x, y, y.astype(complex)), "complex"),
    (lambda x, y: WATCHED.fit(x, y, watch=(x, y[:, None])), r"watch\[1\] has shape \(24, 1\)"),
    (lambda x, y: WATCHED.fit(x, y, watch=(x, y[:3])), r"watch\[0\] has length 24; expected 3"),
    (lambda x, y: WATCHED.fit(x, y, watch=(x,)), "watch is of type tuple; expected a pair"),
    (lambda x, y: WATCHED.fit(x, y, watch=3), "watch is of type int"),
    (lambda x, y: WIDE.fit(x, np.array([None, "a"] * 12, object)), "labels of one kind"),
    (lambda x, y: WIDE.fit(x, y * 1j), "complex"),
    (lambda x, y: WIDE.fit(x, np.array(["a"] * 24, object)), "holds .*'a'.*at least two classes"),
    *((lambda x, y, k=k, v=v: et.systems.inference("NN", **{k: v}), k) for k, vs in SETTINGS.items() for v in vs),
    (lambda x, y: et.systems.inference("NTK", members=3), "NTK has no setting 'members'"),
    (lambda x, y: et.systems.inference("SVM"), "'SVM'"),
    (lambda x, y: et.systems.System("I", 3, "NTK"), "architecture"),
    (lambda x, y: et.systems.System("I", "VEC", 3), "inference"),
    (lambda x, y: et.systems.System("I", "CNN", "NN"), "'CNN'"),
])  # fmt: skip
def test_labels_settings_and_systems_that_do_not_fit_are_refused(data: Any, call: Any, said: str) -> None:
    with pytest.raises(EquitangentsError, match=said):
        call(data.x, data.labels)
