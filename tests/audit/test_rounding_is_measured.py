"""Networks that round inside, of known violation: rounding neither breaks a symmetry nor hides that one is broken."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et

QUIET = {"off_data": False, "data_test": None, "layers": False, "resamples": 100}
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(64, 6, 6, 1)).astype(np.float32)
EVEN, ODD = RNG.normal(size=(2, 36, 3)) / 6


def network(x, share, dtype):
    """An invariant part, and an odd one in this share, computed in numbers of this type."""
    of = lambda x, w: jnp.tanh(jnp.asarray(x, dtype).reshape(len(x), -1) @ jnp.asarray(w, dtype))
    mean = lambda w: sum(of(jnp.rot90(jnp.asarray(x), k, (1, 2)), w) for k in range(4)) / 4
    return mean(EVEN) + jnp.asarray(share, dtype) * (of(x, ODD) - mean(ODD)) if share else mean(EVEN)


def grid(a, steps):
    return jnp.round(a * steps) / steps


KINDS = {
    "float16 inside": lambda x, c: network(x, c, jnp.float16).astype(jnp.float32),
    "bfloat16 inside": lambda x, c: network(x, c, jnp.bfloat16).astype(jnp.float32),
    "bfloat16": lambda x, c: network(x, c, jnp.bfloat16),
    "8 bits inside": lambda x, c: grid(network(grid(x, 32), c, jnp.float32), 128),
    "float32 above 100,000": lambda x, c: network(x, c, x.dtype) + jnp.asarray(1e5, x.dtype),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_networks_hold_and_broken_ones_do_not(kind):
    exact, broken = (et.audit(lambda x, c=c: KINDS[kind](x, c), "C4", IMAGES, **QUIET) for c in (0.0, 0.05))
    assert exact.verdict == "equivariant", exact.first_line
    assert broken.verdict == "broken", broken.first_line
