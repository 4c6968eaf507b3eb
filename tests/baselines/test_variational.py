"""Mean-field variational inference: the ELBO by hand, and what ensembles and baselines make of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.ensembles.training.recipe import member_keys
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.extending import precision
from equitangents_studies.baselines.variational import (
    MeanField,
    MeanFieldPosterior,
    divergence,
    drawn,
    towards_prior,
)

LINEAR = et.nn.Sequential(et.nn.Dense(1, W_std=1.0))
NET = et.nn.Sequential(et.nn.Dense(6, b_std=0.2), et.nn.Relu(), et.nn.Dense(1))
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=5)


def random_posterior(shapes=((3, 2), (2,))):
    part = lambda scale: [jnp.asarray(scale * RNG.normal(size=s)) for s in shapes]
    return {"mean": part(1.0), "log_scale": part(0.5)}


def numbers(tree):
    return np.concatenate([np.asarray(a).ravel() for a in jax.tree.leaves(tree)])


class TestDivergence:
    def test_is_the_sum_over_weights_and_the_mean_of_log_ratios_of_densities(self):
        with precision.scope(np.float64):
            q = random_posterior()
            found = float(divergence(q))
        mean, scale = numbers(q["mean"]), np.exp(numbers(q["log_scale"]))
        literal = sum((m**2 + s**2 - 1) / 2 - np.log(s) for m, s in zip(mean, scale, strict=True))
        assert found == pytest.approx(literal, rel=1e-12)
        noise = np.random.default_rng(0).normal(size=(20_000, len(mean)))
        ratios = (-(noise**2) / 2 - np.log(scale) + (mean + scale * noise) ** 2 / 2).sum(axis=1)
        assert abs(ratios.mean() - found) < 4 * ratios.std() / len(noise) ** 0.5

    @pytest.mark.slow
    def test_its_gradient_is_added_at_the_rate(self):
        with precision.scope(np.float64):
            q = random_posterior()
            zero = jax.tree.map(jnp.zeros_like, q)
            rule = towards_prior(0.3)
            found, _ = rule.update(zero, rule.init(q), q)
            step = 1e-5
            flat, shape = jax.flatten_util.ravel_pytree(q)
            value = lambda v: float(divergence(shape(v)))
            for i, expected in enumerate(jax.flatten_util.ravel_pytree(found)[0]):
                unit = step * jnp.eye(len(flat))[i]
                slope = (value(flat + unit) - value(flat - unit)) / (2 * step)
                assert 0.3 * slope == pytest.approx(float(expected), abs=1e-8)


@pytest.mark.slow
def test_gradients_of_drawn_losses_are_those_of_the_expected_loss_in_the_mean():
    """f = ω·x/√d: E_q ½(f − y)² = ½(μ·x/√d − y)² + ½ Σ σ²x²/d."""
    with precision.scope(np.float64):
        net = MeanField(LINEAR, 0.7)
        x, y = jnp.asarray(X), jnp.asarray(Y)
        variables = net.init(jax.random.key(0), (3,), "float64")

        def loss(q, key):
            outputs, _ = net.apply((q, variables.state), x, train=True, key=key)
            return ((outputs[:, 0] - y) ** 2).mean() / 2

        keys = jax.random.split(jax.random.key(1), 4000)
        found = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(variables.params, keys)
        found = {name: np.asarray(part[0]["w"])[..., 0] for name, part in found.items()}
        mean, scale = (np.asarray(variables.params[name][0]["w"])[:, 0] for name in ("mean", "log_scale"))
    miss = X @ mean / 3**0.5 - Y
    expected = {
        "mean": (miss[:, None] * X / 3**0.5).mean(axis=0),
        "log_scale": (X**2 / 3).mean(axis=0) * np.exp(2 * scale),
    }
    for name, gradients in found.items():
        errors = gradients.std(axis=0) / len(gradients) ** 0.5
        assert np.max(np.abs(gradients.mean(axis=0) - expected[name]) / errors) < 4.5, name


@pytest.mark.slow
def test_a_linear_network_finds_the_best_independent_gaussian():
    """Its mean is the posterior's; its precisions are the diagonal of the posterior's, of all augmented copies."""
    noise, action = 0.4, et.actions.linear(et.groups.cyclic(3), np.stack([np.roll(np.eye(3), g, 0) for g in range(3)]))
    model = et.DeepEnsemble(
        MeanField(LINEAR, 0.5), members=64, augmentation=action, optimizer="gd", learning_rate=0.3, epochs=400,
        variation=MeanFieldPosterior(noise=noise),
    ).fit(X, Y)  # fmt: skip
    features = np.concatenate([np.roll(X, g, axis=1) for g in range(3)]) / 3**0.5
    precisions = np.eye(3) + features.T @ features / noise
    expected = np.linalg.solve(precisions, features.T @ np.tile(Y, 3) / noise)
    q = {name: np.asarray(part[0]["w"])[..., 0] for name, part in model.params_["params"].items()}
    errors = q["mean"].std(axis=0) / 8
    assert np.max(np.abs(q["mean"].mean(axis=0) - expected) - 5 * errors) < 0.01
    np.testing.assert_allclose(np.exp(-2 * q["log_scale"]).mean(axis=0), np.diag(precisions), rtol=0.1)


class TestMembers:
    def fitted(self, epochs=4, **options):
        training = {"optimizer": "adam", "epochs": epochs, "batch_size": 2, "variation": MeanFieldPosterior(noise=0.1)}
        return et.DeepEnsemble(MeanField(NET), members=3, **training, **options)

    @pytest.mark.slow
    def test_predict_by_the_draw_that_they_begin_with(self):
        model = self.fitted().fit(X, Y)
        for i, outputs in enumerate(model.predict_members(X)):
            own = lambda part, i=i: jax.tree.map(lambda a: a[i], part)
            start = MeanField(NET).init(member_keys(0, i)[0], (3,))
            weights = drawn(own(model.params_["params"]), start.state)
            np.testing.assert_allclose(outputs, NET.apply(weights, X), rtol=1e-4, atol=1e-5)

    @pytest.mark.slow
    def test_go_on_from_a_checkpoint_to_the_same_bits(self, tmp_path):
        whole = self.fitted().fit(X, Y)
        self.fitted(2, checkpoint_dir=tmp_path, checkpoint_every=1).fit(X, Y)
        resumed = self.fitted(checkpoint_dir=tmp_path, checkpoint_every=1).fit(X, Y, resume=True)
        np.testing.assert_array_equal(numbers(resumed.params_), numbers(whole.params_))

    def test_nets_and_numbers_that_are_none_are_refused(self):
        with pytest.raises(NetworkError, match="expected a MeanField"):
            et.DeepEnsemble(NET, variation=MeanFieldPosterior()).fit(X, Y)
        with pytest.raises(InvalidArgumentError, match="noise is 0"):
            MeanFieldPosterior(noise=0)
        with pytest.raises(InvalidArgumentError, match="scale is -1"):
            MeanField(NET, -1)
