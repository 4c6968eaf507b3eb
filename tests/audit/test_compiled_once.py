"""Audits of one network compile it once, whatever its parameters are."""

from __future__ import annotations

import jax
import numpy as np

import equitangents as et
from equitangents.audit.adapters.callables import _applied


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
