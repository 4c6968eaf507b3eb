"""Irreps in the layers of an unconstrained network of points, trained with rotations and without.

`python -m benchmarks irreps_by_layer` trains both from three seeds (two minutes), prints shares by layer and draws
the picture of docs/guide/irreps-by-layer.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).resolve().parent.parent / "docs" / "guide" / "irreps-by-layer.svg"
POINTS, STEPS, BATCH, TEST = 32, 1500, 64, 32
SEEDS = (0, 1, 2)
_SHAPES = np.array([[0.3, 0.3, 1.0], [1.0, 0.3, 1.0], [0.6, 0.6, 0.6], [0.3, 0.6, 1.2]])


def clouds(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ellipsoids of four shapes, upright: (count, points, 3), and which shape each is."""
    y = rng.integers(len(_SHAPES), size=count)
    x = rng.normal(size=(count, POINTS, 3))
    return (x * _SHAPES[y][:, None]).astype(np.float32), y


def turned(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Every cloud by a random rotation of its own."""
    from scipy.spatial.transform import Rotation

    R = Rotation.random(len(x), rng=rng).as_matrix()
    return np.einsum("nij,npj->npi", R, x).astype(np.float32)


def network() -> Any:
    """Two layers on each point, mean and largest value over points, and two more layers: nothing knows rotations."""
    import jax.numpy as jnp
    from flax import linen

    class Points(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            h = linen.gelu(linen.Dense(64, name="point 1")(x))
            h = linen.gelu(linen.Dense(64, name="point 2")(h))
            h = jnp.concatenate([h.mean(axis=-2), h.max(axis=-2)], axis=-1)
            h = linen.gelu(linen.Dense(64, name="cloud 1")(h))
            h = linen.gelu(linen.Dense(64, name="cloud 2")(h))
            return linen.Dense(len(_SHAPES), name="classes")(h)

    return Points()


def trained(rotations: bool, seed: int = 0) -> tuple[Any, float, float]:
    """The network with its parameters, and its accuracy on upright clouds and on turned ones."""
    import jax
    import optax

    rng, module = np.random.default_rng(seed), network()
    params = module.init(jax.random.key(seed), clouds(rng, 1)[0])
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, STEPS))
    state = optimiser.init(params)

    @jax.jit
    def step(params: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any]:
        loss = lambda p: optax.softmax_cross_entropy_with_integer_labels(module.apply(p, x), y).mean()
        update, state = optimiser.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, update), state

    for _ in range(STEPS):
        x, y = clouds(rng, BATCH)
        params, state = step(params, state, turned(rng, x) if rotations else x, y)
    x, y = clouds(np.random.default_rng(99), 1000)
    right = lambda x: float(np.mean(np.argmax(module.apply(params, x), axis=-1) == y))
    return (module, params), right(x), right(turned(np.random.default_rng(98), x))


def shares(results: list[Any]) -> dict[str, np.ndarray]:
    """By irrep the shares of every seed and layer, in per cent."""
    irreps = list(results[0].layers[0].shares)
    return {
        irrep: np.array([[100 * max(r.shares[irrep], 0.0) for r in one.layers] for one in results]) for irrep in irreps
    }


def draw(found: dict[str, list[Any]]) -> None:
    """One panel a network: shares of irreps as stacked bars, means over seeds; lines: the range of l = 0."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(1, len(found), sharey=True)
    for axes, (title, results) in zip(panels, found.items(), strict=True):
        names = [r.name for r in results[0].layers]
        low = np.zeros(len(names))
        for k, (irrep, table) in enumerate(shares(results).items()):
            share = table.mean(axis=0)
            grey = (0.12, 0.35, 0.7) if k == 0 else (0.55 + 0.07 * k, 0.25 + 0.13 * k, 0.1 + 0.1 * k)
            axes.bar(names, share, bottom=low, label=irrep, color=grey, edgecolor="white", linewidth=0.5)
            if k == 0:
                axes.vlines(names, table.min(axis=0), table.max(axis=0), color="black", linewidth=1.5)
            low += share
        axes.set_title(title, fontsize=11)
        axes.tick_params(axis="x", rotation=35)
    panels[0].set_ylabel("share of the power, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    figure.savefig(OUT, metadata={"Date": None})


def main() -> None:
    """Train, decompose, print and draw."""
    import equitangents as et

    x = clouds(np.random.default_rng(7), TEST)[0]
    found: dict[str, list[Any]] = {}
    for title, rotations in (("trained upright", False), ("trained on all orientations", True)):
        found[title] = []
        for seed in SEEDS:
            model, upright, any_way = trained(rotations, seed)
            result = et.audit.irreps_by_layer(model, "SO3", x, inputs="vectors")
            found[title].append(result)
            print(
                f"\n{title}, seed {seed}: right on {upright:.1%} of upright clouds, {any_way:.1%} of turned ones; ",
                end="",
            )
            print(f"relative error of the output {result.relative_error:.3f}\n{result.table()}", flush=True)
        print(f"\n{title}, mean of {len(SEEDS)} seeds (least to largest), %, by layer")
        for irrep, table in shares(found[title]).items():
            cells = zip(table.mean(axis=0), table.min(axis=0), table.max(axis=0), strict=True)
            print(f"| {irrep} | " + " | ".join(f"{m:.1f} ({a:.1f} to {b:.1f})" for m, a, b in cells) + " |", flush=True)
    draw(found)
    print(f"written: {OUT.name}")
