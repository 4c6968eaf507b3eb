"""Verdicts of audits over 400 networks that round inside, half of them exact, half broken by 2 to 10 % of their spread.

float16, bfloat16 and 8 bits inside, outputs in bfloat16, and float32 with offsets of 100 to 1,000,000. A model's
violation is set on 500 other inputs in float32. `python -m benchmarks audit_rounding` prints the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

MODELS = 40  # of each kind, exact and broken alike
INPUTS, FRESH, SIZE = 64, 500, 6
VERDICTS = ("equivariant", "broken", "undecided")
Network = Callable[[Any, Any], Any]


def network(rng: np.random.Generator, violation: float) -> Network:
    """f(x, type), invariant but for a part of mean 0 along orbits; all of it is computed in this type."""
    import jax.numpy as jnp

    even, odd = rng.normal(size=(2, SIZE**2, int(rng.integers(1, 6)))) / SIZE
    one = lambda x, w, t: jnp.tanh(jnp.asarray(x, t).reshape(len(x), -1) @ jnp.asarray(w, t))
    mean = lambda x, w, t: sum(one(jnp.rot90(jnp.asarray(x), k, (1, 2)), w, t) for k in range(4)) / 4
    tilt = lambda x, t: one(x, odd, t) - mean(x, odd, t)
    if not violation:
        return lambda x, t: mean(x, even, t)
    x = rng.normal(size=(FRESH, SIZE, SIZE, 1)).astype(np.float32)
    start, spread = np.asarray(tilt(x, x.dtype)), float(np.sqrt(np.asarray(mean(x, even, x.dtype)).var(axis=0).sum()))
    moved = [np.asarray(tilt(np.rot90(x, k, (1, 2)), x.dtype)) for k in (1, 2, 3)]
    c = violation * spread / np.mean([np.linalg.norm(m - start, axis=1).mean() for m in moved])
    return lambda x, t: mean(x, even, t) + jnp.asarray(c, t) * tilt(x, t)


def kinds(f: Network, offset: float) -> dict[str, Callable[[Any], Any]]:
    """The network with every rounding inside."""
    import jax.numpy as jnp

    grid = lambda a, steps: jnp.round(a * steps) / steps
    return {
        "float16 inside": lambda x: f(x, jnp.float16).astype(jnp.float32),
        "bfloat16 inside": lambda x: f(x, jnp.bfloat16).astype(jnp.float32),
        "bfloat16": lambda x: f(x, jnp.bfloat16),
        "8 bits inside": lambda x: grid(f(grid(x, 32), jnp.float32), 128),
        "float32 and an offset": lambda x: f(x, x.dtype) + jnp.asarray(offset, x.dtype),
    }


def measure(models: int = MODELS) -> list[tuple[str, bool, Counter[str]]]:
    """(kind, whether exact, verdicts)."""
    from equitangents.audit import audit

    rows = []
    for name in kinds(lambda x, t: x, 0.0):
        for exact in (True, False):
            counts: Counter[str] = Counter()
            for m in range(models):
                rng = np.random.default_rng([m, exact, len(name)])
                f = network(rng, 0.0 if exact else rng.uniform(0.02, 0.1))
                model = kinds(f, 10 ** rng.uniform(2, 6))[name]
                x = rng.normal(size=(INPUTS, SIZE, SIZE, 1)).astype(np.float32)
                quiet: dict[str, Any] = {"off_data": False, "data_test": None, "layers": False, "resamples": 100}
                counts[audit(model, "C4", x, seed=m, **quiet).verdict] += 1
            rows.append((name, exact, counts))
    return rows


def main() -> None:
    """The table of all kinds."""
    print("| rounding | networks | equivariant | broken | undecided |\n|---|---|---|---|---|")
    for name, exact, counts in measure():
        cells = [name, "exact" if exact else "off by 2 to 10 %", *(counts[v] for v in VERDICTS)]
        print("| " + " | ".join(map(str, cells)) + " |")
