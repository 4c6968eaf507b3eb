"""Modules of Flax and Equinox: in evaluation mode, in double precision too, with the layer that breaks the symmetry."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from flax import linen, nnx

import equitangents as et
from equitangents.audit.adapters import as_model
from equitangents.audit.adapters.callables import _applied
from equitangents.errors import InvalidTypeError
from equitangents.functional import EmpiricalKernel

X = np.random.default_rng(0).normal(size=(6, 4, 4, 1)).astype(np.float32)


class Nnx(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.round = nnx.Conv(1, 3, (3, 3), padding="CIRCULAR", rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.edge = nnx.Conv(3, 3, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.edge(self.drop(self.round(x))).mean((1, 2))


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, train: bool = True) -> jax.Array:
        x = linen.Conv(3, (3, 3), padding="CIRCULAR", name="round")(x)
        x = linen.Dropout(0.5, deterministic=not train, name="drop")(x)
        return linen.Conv(3, (3, 3), name="edge")(x).mean((1, 2))


class Equinox(eqx.Module):
    round: eqx.nn.Conv2d
    drop: eqx.nn.Dropout
    edge: eqx.nn.Conv2d

    def __init__(self, key: jax.Array):
        one, two = jax.random.split(key)
        self.round = eqx.nn.Conv2d(1, 3, 3, padding=1, padding_mode="CIRCULAR", key=one)
        self.drop, self.edge = eqx.nn.Dropout(0.5), eqx.nn.Conv2d(3, 3, 3, padding=1, key=two)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.edge(self.drop(self.round(x))).mean((1, 2))


def model_of(library: str) -> tuple[Any, Any, Any]:
    """The model, the batch as it takes it, the function of the batch that it is."""
    if library == "linen":
        module = Linen()
        variables = module.init(jax.random.key(0), X[:1], train=False)
        return (module, variables), X, lambda x: module.apply(variables, x, train=False)
    if library == "equinox":
        own = Equinox(jax.random.key(0))
        return own, np.moveaxis(X, -1, 1), jax.vmap(eqx.nn.inference_mode(own))
    given = Nnx(nnx.Rngs(0))
    silent = nnx.clone(given)
    silent.eval()
    return given, X, silent


@pytest.mark.quick(1)
@pytest.mark.parametrize("library", [pytest.param("nnx", marks=pytest.mark.slow), "linen", "equinox"])
def test_modules_are_evaluated_in_their_own_mode_and_those_of_flax_show_their_layers(library: str) -> None:
    given, x, function = model_of(library)
    model = as_model(given)
    np.testing.assert_allclose(model(x), function(x), atol=1e-5)
    exact = model.double()(x.astype(np.float64))
    assert exact.dtype == np.float64
    np.testing.assert_allclose(exact, function(x), atol=1e-5)
    traces = model.trace(x)
    if library == "equinox":
        assert traces is None
        return
    assert [t.name for t in traces] == ["round", "drop", "edge"]
    np.testing.assert_array_equal(traces[0].inputs, x)
    np.testing.assert_array_equal(traces[-1].inputs, traces[-2].outputs)
    np.testing.assert_allclose(traces[-1].outputs.mean((1, 2)), function(x), atol=1e-5)


@pytest.mark.slow
def test_the_layer_that_breaks_the_symmetry_of_an_nnx_module_is_named() -> None:
    module = Nnx(nnx.Rngs(0))
    report = et.audit(module, "translations", X, elements=2, off_data=False, resamples=50)
    assert (report.layers.guilty, report.model.kind) == ("edge", "flax")
    assert not module.drop.deterministic, "the audited module stays in its mode"


def test_a_linen_module_needs_its_variables() -> None:
    with pytest.raises(InvalidTypeError, match=r"expected \(module, variables\)"):
        et.audit(Linen(), "translations", X)


RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(6, 3))
SWAP = et.actions.linear(et.groups.cyclic(2), np.stack([np.eye(3), np.eye(3)[[1, 0, 2]]]))


def test_a_linearised_model_is_audited_at_any_time():
    net = et.nn.Sequential(et.nn.Dense(8), et.nn.Erf(), et.nn.Dense(2))
    kernel = EmpiricalKernel(net.apply, net.init(jax.random.key(0), (3,), dtype="float64"))
    model = et.InfiniteEnsemble(kernel, time=2.0).fit(POINTS, RNG.normal(size=6))
    assert et.audit(model, SWAP, POINTS).verdict == "broken"


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
