"""The working memory of a function, estimated from its jaxpr."""

import jax
import jax.numpy as jnp
import pytest

from equitangents.ensembles.training.plan import peak_bytes

x = jax.ShapeDtypeStruct((100,), jnp.float32)
m = jax.ShapeDtypeStruct((100, 100), jnp.float32)


def test_nested_programs_count():
    inner = jax.jit(lambda x: jnp.outer(x, x).sum())
    assert 40_000 <= peak_bytes(lambda x: inner(x) + 1, x) < 41_000
    scan = lambda x: jax.lax.scan(lambda c, _: (c + jnp.outer(x, x).sum(), None), 0.0, length=9)[0]
    assert 40_000 <= peak_bytes(scan, x) < 41_000


@pytest.mark.parametrize("rows", [64, 512])
def test_the_estimate_bounds_what_the_compiler_takes(rows):
    def loss(w, x):
        return (jnp.tanh(jnp.tanh(x @ w) @ w) ** 2).sum()

    shape = jax.ShapeDtypeStruct((rows, 100), jnp.float32)
    compiled = jax.jit(jax.grad(loss)).lower(m, shape).compile().memory_analysis()
    actual = compiled.temp_size_in_bytes + compiled.output_size_in_bytes
    assert actual / 1.2 < peak_bytes(jax.grad(loss), m, shape) < 4 * actual
