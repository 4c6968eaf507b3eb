"""Irreps by layer: features of known content hold what they should, on finite groups and on SO(3) and O(3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import equitangents as et
from equitangents.errors import EquitangentsError

X = np.random.default_rng(0).normal(size=(6, 5, 3))


class Known(linen.Module):
    """The sum of the points (l = 1), its outer product with itself (l = 0 and 2), a number (l = 0)."""

    @linen.compact
    def __call__(self, x):
        class Sum(linen.Module):
            @linen.compact
            def __call__(self, x):
                return x.sum(axis=-2) + 0 * self.param("p", lambda key: jnp.zeros(()))

        class Outer(Sum):
            @linen.compact
            def __call__(self, v):
                return v[..., :, None] * v[..., None, :] + 0 * self.param("p", lambda key: jnp.zeros(()))

        class Trace(Sum):
            @linen.compact
            def __call__(self, S):
                return jnp.trace(S, axis1=-2, axis2=-1)[..., None] + 0 * self.param("p", lambda key: jnp.zeros(()))

        return Trace(name="trace")(Outer(name="outer")(Sum(name="sum")(x)))


def known():
    module = Known()
    return module, module.init(jax.random.key(0), X)


def test_features_of_known_content_are_found_in_their_irreps() -> None:
    found = et.audit.irreps_by_layer(known(), "SO3", X, inputs="vectors", degrees=3)
    shares = {layer.name: layer.shares for layer in found.layers}
    assert shares["sum"]["l = 1"] == pytest.approx(1.0, abs=1e-5)
    assert shares["outer"]["l = 0"] == pytest.approx(1 / 3, abs=1e-5)  # ‖vvᵀ‖² = |v|⁴, a third of it in (v·v)²/3
    assert shares["outer"]["l = 2"] == pytest.approx(2 / 3, abs=1e-5)
    assert shares["trace"]["l = 0"] == pytest.approx(1.0, abs=1e-5)
    assert found.relative_error < 1e-3
    for layer in found.layers:
        assert sum(layer.shares.values()) == pytest.approx(1.0, abs=1e-9)
    assert "outer" in found.table()


def test_vectors_that_are_turned_back_have_no_error_and_are_wrong_as_invariants() -> None:
    class Vector(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(1, use_bias=False)(jnp.swapaxes(x, -1, -2))[..., 0]

    module = Vector()
    model = (module, module.init(jax.random.key(0), X))
    back = lambda g, y: y @ g  # rows times g is g⁻¹ of a vector
    right = et.audit.irreps_by_layer(model, "O3", X, inputs="vectors", turned_back=back, degrees=2)
    wrong = et.audit.irreps_by_layer(model, "O3", X, inputs="vectors", degrees=2)
    assert right.relative_error < 1e-3
    assert wrong.error["l = 1, odd under inversion"] == pytest.approx(1.0, abs=1e-5)


def test_a_finite_group_is_decomposed_exactly() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(16, 2)).astype(np.float32)

    class Flat(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(2, use_bias=False, name="dense")(x.reshape(x.shape[0], -1))

    model = (Flat(), {"params": {"dense": {"kernel": w}}})
    found = et.audit.irreps_by_layer(model, "C4", x, layout="channels_last").layers[0]
    phi = np.array([np.rot90(x, k, axes=(1, 2)).reshape(3, -1) @ w for k in range(4)])
    power = (np.abs(np.fft.fft(phi, axis=0) / 4) ** 2).sum(axis=(1, 2))
    expected = np.array([power[0], power[1] + power[3], power[2]]) / power.sum()
    np.testing.assert_allclose(sorted(found.shares.values()), sorted(expected), rtol=1e-5)
    assert found.shares["trivial"] == pytest.approx(expected[0], rel=1e-5)
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=1e-9)


def test_what_cannot_be_decomposed_is_refused() -> None:
    with pytest.raises(EquitangentsError, match="which show their layers"):
        et.audit.irreps_by_layer(lambda x: x.sum(axis=(1, 2)), "SO3", X, inputs="vectors", degrees=2)
    with pytest.raises(EquitangentsError, match="degrees is 0"):
        et.audit.irreps_by_layer(known(), "SO3", X, inputs="vectors", degrees=0)
    with pytest.raises(EquitangentsError, match="NaN"):
        et.audit.irreps_by_layer(known(), "SO3", X * np.nan, inputs="vectors", degrees=2)
