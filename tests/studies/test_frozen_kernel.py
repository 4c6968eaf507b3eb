"""The study `frozen-kernel`: parametrisations against their definitions, training against closed forms, verdicts."""

import jax
import numpy as np
import pytest
from scipy.special import erf

from equitangents import kernels, nn
from equitangents_studies.frozen_kernel import (
    PARAMETRISATIONS,
    MeanField,
    Results,
    Settings,
    claims,
    parametrised,
    trained,
)

SETTINGS = Settings(widths=(8, 16, 32, 64), networks=12, steps=(1, 10))


@pytest.fixture(scope="module")
def small():
    """A network of width 5 on 3 inputs, its parameters, and inputs."""
    net = nn.Sequential(nn.Dense(5, W_std=1.3, b_std=0.2), nn.Erf(), nn.Dense(1, W_std=0.7))
    return net, np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


class TestParametrisations:
    def test_standard_weights_are_those_that_multiply_inputs_and_the_function_is_the_same(self, small):
        net, x = small
        key = jax.random.key(1)
        standard = parametrised(net, 5, "standard")
        ours, params = net.init(key, (3,)), standard.init(key, (3,))
        np.testing.assert_allclose(params[0]["w"], 1.3 / np.sqrt(3) * ours[0]["w"], rtol=1e-6)
        np.testing.assert_allclose(params[0]["b"], 0.2 * ours[0]["b"], rtol=1e-6)
        hidden = erf(x @ np.asarray(params[0]["w"]) + np.asarray(params[0]["b"]))
        np.testing.assert_allclose(standard.apply(params, x), hidden @ np.asarray(params[2]["w"]), atol=1e-6)
        np.testing.assert_allclose(standard.apply(params, x), net.apply(ours, x), atol=1e-6)

    @pytest.mark.slow
    def test_standard_kernel_weighs_each_layer_by_its_fan_in(self, small):
        net, x = small
        key = jax.random.key(1)
        jacobian = jax.jacobian(lambda p: net.apply(p, x)[:, 0])(net.init(key, (3,)))
        part = lambda layer, name: np.asarray(jacobian[layer][name]).reshape(4, -1)
        weighed = [(part(0, "w"), 3 / 1.3**2), (part(0, "b"), 1 / 0.2**2), (part(2, "w"), 5 / 0.7**2)]
        expected = sum(factor * a @ a.T for a, factor in weighed)
        standard = parametrised(net, 5, "standard")
        found = kernels.empirical(standard, standard.init(key, (3,)), x)
        np.testing.assert_allclose(found, expected, rtol=1e-4)

    def test_mean_field_divides_the_output_by_the_root_of_the_width(self, small):
        net, x = small
        params = net.init(jax.random.key(1), (3,))
        scaled = MeanField(net, 5)
        np.testing.assert_allclose(scaled.apply(params, x), net.apply(params, x) / np.sqrt(5), rtol=1e-6)
        np.testing.assert_allclose(
            kernels.empirical(scaled, params, x), kernels.empirical(net, params, x) / 5, rtol=1e-5
        )


class TestTraining:
    def test_a_linear_model_keeps_its_kernel_and_descends_as_its_closed_form(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(6, 1)).astype(np.float32)
        net = nn.Sequential(nn.Dense(1))
        params = net.init(jax.random.key(0), (3,))
        found = trained(net, params, x, y, x[:3], 0.25, np.array([1, 7]))
        assert np.max(found["movement"]) < 1e-6
        theta = x @ x.T / 3
        rate = 0.5 * 6 / np.linalg.eigvalsh(theta)[-1]
        assert found["rate"] == pytest.approx(rate, rel=1e-5)
        residual = np.asarray(net.apply(params, x)) - y
        step = np.eye(6) - rate * theta / 6
        expected = [0.5 * np.mean((np.linalg.matrix_power(step, k) @ residual) ** 2) for k in (0, 1, 7)]
        np.testing.assert_allclose(found["loss"], expected, rtol=1e-4)

    def test_movement_is_that_of_the_kernel_relative_to_its_start(self, small):
        net, x = small
        params, y = net.init(jax.random.key(2), (3,)), np.ones((4, 1), np.float32)
        found = trained(net, params, x, y, x, 0.25, np.array([1]))
        loss = lambda p: ((net.apply(p, x) - y) ** 2).mean() / 2
        moved = jax.tree.map(lambda a, g: a - found["rate"] * g, params, jax.grad(loss)(params))
        one, other = (np.asarray(kernels.empirical(net, p, x), np.float64) for p in (params, moved))
        expected = np.linalg.norm(other - one) / np.linalg.norm(one)
        assert expected > 1e-3
        assert found["movement"][0] == pytest.approx(expected, rel=1e-3)


class TestClaims:
    def _results(self, *, ntk=-1.0, relu=-1.0, standard=-1.0, mean_field=0.0, spread=0.05, networks=12):
        """Movements 1/2 · (n/8)^exponent, log-normal over networks."""
        rng, widths = np.random.default_rng(0), np.array(SETTINGS.widths)
        exponent = {"ntk": ntk, "standard": standard, "mean-field": mean_field}
        movement = {}
        for phi in SETTINGS.nonlinearities:
            for p in PARAMETRISATIONS:
                slope = relu if (phi, p) == ("relu", "ntk") else exponent[p]
                size = 0.5 * (widths / 8.0) ** slope
                movement[phi, p] = size[:, None, None] * np.exp(spread * rng.normal(size=(4, networks, 2)))
        return Results(widths, np.array(SETTINGS.steps), movement)

    def _verdicts(self, **how):
        return [claim.outcome for claim in claims(SETTINGS, self._results(**how))]

    def test_true(self):
        assert self._verdicts() == ["holds"] * 6

    @pytest.mark.parametrize(
        ("change", "verdicts"),
        [
            ({"ntk": -0.3}, {0: "fails", 1: "holds", 3: "fails"}),
            ({"relu": -0.3}, {0: "holds", 1: "fails"}),
            ({"ntk": -0.6, "relu": -0.6}, {0: "holds", 1: "holds", 2: "holds", 3: "fails"}),
            ({"standard": -0.1}, {2: "fails"}),
            ({"mean_field": -1.0}, {4: "fails", 5: "fails"}),
        ],
    )
    def test_a_claim_follows_its_numbers(self, change, verdicts):
        found = self._verdicts(**change)
        assert {i: found[i] for i in verdicts} == verdicts

    def test_few_or_scattered_networks_decide_nothing(self):
        assert set(self._verdicts(networks=4)) == {"undecided"}
        assert self._verdicts(ntk=-0.5, spread=1.0)[0] == "undecided"

    def test_a_network_that_diverged_decides_nothing(self):
        results = self._results()
        results.movement["erf", "ntk"][0, 0, 1] = np.nan
        assert claims(SETTINGS, results)[0].outcome == "undecided"
