"""Claims of frozen-kernel, mean-field and exchange-rate on made-up numbers, and what they measure literally."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy.special import erf

from equitangents import actions, kernels, nn
from equitangents.statistics import Estimate
from equitangents_studies import exchange_rate as exchange
from equitangents_studies import mean_field
from equitangents_studies.frozen_kernel import (
    PARAMETRISATIONS,
    MeanField,
    Results,
    Settings,
    claims,
    parametrised,
    trained,
)
from studies.small import follow

FROZEN = Settings(widths=(8, 16, 32, 64), networks=12, steps=(1, 10))


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
        rng, widths = np.random.default_rng(0), np.array(FROZEN.widths)
        exponent = {"ntk": ntk, "standard": standard, "mean-field": mean_field}
        movement = {}
        for phi in FROZEN.nonlinearities:
            for p in PARAMETRISATIONS:
                slope = relu if (phi, p) == ("relu", "ntk") else exponent[p]
                size = 0.5 * (widths / 8.0) ** slope
                movement[phi, p] = size[:, None, None] * np.exp(spread * rng.normal(size=(4, networks, 2)))
        return Results(widths, np.array(FROZEN.steps), movement)

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({}, ["holds"] * 6),
            ({"ntk": -0.3}, {0: "fails", 1: "holds", 3: "fails"}),
            ({"relu": -0.3}, {0: "holds", 1: "fails"}),
            ({"ntk": -0.6, "relu": -0.6}, {0: "holds", 1: "holds", 2: "holds", 3: "fails"}),
            ({"standard": -0.1}, {2: "fails"}),
            ({"mean_field": -1.0}, {4: "fails", 5: "fails"}),
            ({"networks": 4}, ["undecided"] * 6),
            ({"ntk": -0.5, "spread": 1.0}, {0: "undecided"}),
        ],
    )
    def test_a_claim_follows_its_numbers(self, change, expected):
        follow(claims(FROZEN, self._results(**change)), expected)

    def test_a_network_that_diverged_decides_nothing(self):
        results = self._results()
        results.movement["erf", "ntk"][0, 0, 1] = np.nan
        assert claims(FROZEN, results)[0].outcome == "undecided"


MEAN_FIELD = mean_field.Settings(widths=(16, 64, 256), scales=(1.0, 2.0), members=200)
AT = [(n, scale) for n in MEAN_FIELD.widths for scale in MEAN_FIELD.scales_of(n)]


def mean_field_results(*, apart=0.5, violation=0.5, bias=0.0, distance=0.5):
    """Networks as (200, 4, 30); at λ = 1 changes and differences of trainings fall as n to the minus powers given."""
    rng = np.random.default_rng(0)
    limit = np.broadcast_to(rng.standard_normal(30), (4, 30))
    outputs, averaged = {}, {}
    for n, scale in AT:
        power = 1.0 if scale == 1 else 0.0
        change = n ** (-violation * power) * rng.standard_normal((200, 4, 30))
        shared = bias * np.array([0.0, 1.0, 1.0, 1.0])[:, None]
        outputs[n, scale] = limit * (1 + distance * power) + change + shared
        averaged[n, scale] = outputs[n, scale] + n ** (-apart * power) * rng.standard_normal((200, 4, 30))
    return mean_field.Results(actions.image_rotations(4), outputs, averaged, limit)


def verdicts(**planted):
    return [c.outcome for c in mean_field.claims(MEAN_FIELD, mean_field_results(**planted))]


@pytest.mark.parametrize(
    ("planted", "missed"),
    [({}, ()), ({"apart": 0.1}, (0,)), ({"violation": 0.1}, (1,)), ({"bias": 1.0}, (1, 2)), ({"distance": 0.0}, (3,))],
)
def test_claims_on_mean_fields_follow_their_numbers(planted, missed):
    assert verdicts(**planted) == ["fails" if i in missed else "holds" for i in range(4)]


def test_distances_are_relative_and_without_the_members_spread():
    found = mean_field_results(distance=0.3).distance(256, 1.0)
    assert found.low < 0.3 < found.high
    assert found.value == pytest.approx(0.3, abs=0.02)


def test_every_scale_has_one_tangent_kernel_at_the_study_s_rates():
    """The learning rate n/λ² times the kernel of f = (λ/√n) h is that of h at rate 1."""
    x = np.random.default_rng(0).normal(size=(2, 2, 2, 1))
    plain = mean_field.network(1, 1.0)
    wanted = type(plain)(*plain.layers[:-1]).kernel(x).ntk
    for n, scale in ((9, 3.0), (16, 1.0)):
        np.testing.assert_allclose(n / scale**2 * mean_field.network(n, scale).kernel(x).ntk, wanted, rtol=1e-10)
    params = mean_field.network(9, 3.0).init(jax.random.key(0), (2, 2, 1), "float32")
    assert mean_field.network(9, 3.0).apply(params, x.astype(np.float32)).shape == (2, 1)


def test_the_scale_of_the_tangent_kernel_is_among_those_of_each_width_once():
    assert MEAN_FIELD.scales_of(4) == [1.0, 2.0]
    assert MEAN_FIELD.scales_of(16) == [1.0, 2.0, 4.0]
    assert math.sqrt(256) in dataclasses.replace(MEAN_FIELD, scales=(1.0,)).scales_of(256)


SETTINGS = exchange.Settings()


def results(*, power=1.0, cost=3.0, foretold=1.0, foretold_cost=1.0, augmented=0.0):
    """Factors n^power to 5 %, and errors of the wrong group `cost` times the plain kernel's; predictions by factors."""
    rng = np.random.default_rng(0)
    shape = len(SETTINGS.sizes), SETTINGS.repetitions
    errors, predicted, factors, told = {}, {}, {}, {}
    for n in SETTINGS.orders:
        plain = np.exp(0.05 * rng.standard_normal(shape))
        for kind, scale in ((exchange.PLAIN, 1.0), (exchange.RIGHT, 1.0 / n), (exchange.WRONG, cost)):
            errors[n, kind] = scale * plain * np.exp(0.05 * rng.standard_normal(shape))
            predicted[n, kind] = np.full(shape[0], scale * (foretold_cost if kind == exchange.WRONG else 1.0))
        factors[n] = n**power * np.array([1.0, 0.95, 1.05])
        told[n] = foretold * factors[n]
    return exchange.Results(errors, predicted, factors, told, dict.fromkeys(SETTINGS.orders, augmented))


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ({}, ["holds"] * 4),
        ({"power": 0.5}, ["fails", "holds", "holds", "holds"]),
        ({"power": np.nan}, ["undecided", "holds", "holds", "undecided"]),
        ({"cost": 0.8}, ["holds", "fails", "holds", "holds"]),
        ({"augmented": 1e-3}, ["holds", "holds", "fails", "holds"]),
        ({"foretold": 1.6}, ["holds", "holds", "holds", "fails"]),
        ({"foretold_cost": 0.5}, ["holds", "holds", "holds", "fails"]),
    ],
)
def test_claims_on_exchange_rates_follow_their_numbers(planted, expected):
    follow(exchange.claims(SETTINGS, results(**planted)), expected)


def test_the_growth_is_that_of_a_power_through_one():
    e = exchange.growth({2: Estimate(3.0, 2.7, 3.3), 8: Estimate(27.0, 24.0, 30.0)})
    assert e.value == pytest.approx(np.log2(3.0), rel=1e-12)
    assert e.low < e.value < e.high
    alone = exchange.growth({4: Estimate(4.0, 2.0, 8.0)})  # half of log 4 about log 4
    assert (alone.value, alone.low, alone.high) == pytest.approx((1.0, 0.5, 1.5))


def test_targets_are_invariant_under_their_shifts_alone():
    settings = dataclasses.replace(SETTINGS, samples=50)
    x, y = exchange.signals(settings, 4)
    action = exchange.shifts(8, 4)
    for g in range(4):
        np.testing.assert_array_equal(action(g, x), np.roll(x, 2 * g, axis=1))
    lifted = lambda x: np.concatenate(
        [x[..., 0], (x * x.transpose(0, 2, 1)).reshape(len(x), -1), np.ones((len(x), 1))], 1
    )
    many, of = exchange.signals(dataclasses.replace(settings, samples=400), 4)
    quadratic = np.linalg.lstsq(lifted(many), of)[0]
    at = lambda x: lifted(x) @ quadratic
    np.testing.assert_allclose(at(many), of, atol=1e-8)
    np.testing.assert_allclose(at(np.roll(many, 2, axis=1)), of, atol=1e-8)
    assert np.abs(at(np.roll(many, 1, axis=1)) - of).max() > 0.1
    assert (y.mean(), y.std()) == pytest.approx((0.0, 1.0))
