"""Audits of one network compile it once, whatever its parameters are."""

from __future__ import annotations

import jax
import numpy as np

import equitangents as et
from equitangents.audit.adapters.callables import NetworkModel, _applied


def network() -> et.nn.Sequential:
    return et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(2))


def test_an_audit_of_an_equal_network_compiles_nothing_again() -> None:
    x = np.random.default_rng(0).normal(size=(8, 4, 4, 1))
    params = network().init(jax.random.key(0), x.shape[1:])
    audit = lambda: et.audit((network(), params), "C4", x, off_data=False, effort="quick", resamples=50)
    start, report = _applied._cache_size(), audit()
    compiled = _applied._cache_size()
    assert compiled > start, "the counter sees compilations"
    np.testing.assert_array_equal(audit().errors, report.errors)
    assert _applied._cache_size() == compiled


def test_other_parameters_are_another_model_of_the_same_program() -> None:
    x = np.random.default_rng(0).normal(size=(5, 4, 4, 1)).astype(np.float32)
    models = [NetworkModel(network(), network().init(jax.random.key(k), x.shape[1:])) for k in range(3)]
    models[0].run(x)
    compiled = _applied._cache_size()
    for model in models:
        np.testing.assert_allclose(model.run(x), model.net.apply(model.params, x), rtol=1e-5, atol=1e-6)
    assert _applied._cache_size() == compiled
    models[0].run(x[:3])
    assert _applied._cache_size() == compiled + 1, "other shapes are other programs"
