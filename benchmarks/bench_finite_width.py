"""First-order kernels at finite width beside sampled networks: means, spreads, and what each takes.

For every network 1,500 random ones are drawn. Deviations are in standard errors of those samples, the largest over the
pairs of four inputs; ratios of standard deviations are sampled over predicted, their mean over pairs. What first order
leaves out falls as the square of 1/width, so that ratios go to 1. Seconds are processor time.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import equitangents as et
from equitangents import precision
from equitangents.nn import (
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GroupConv,
    GroupPool,
    Lift,
    Relu,
    Sequential,
)

SAMPLES = 1500
WIDTHS = (16, 32, 64, 128)
TURNS = et.actions.permutations(et.groups.cyclic(4), np.array([[(x + g) % 4 for x in range(4)] for g in range(4)]))


def networks(width: int) -> dict[str, tuple[Sequential, tuple[int, ...]]]:
    """Name → network of that many channels, and the shape of its inputs."""
    s: dict[str, Any] = {"W_std": 1.4, "b_std": 0.1}
    found: dict[str, tuple[Sequential, tuple[int, ...]]] = {}
    for phi in (Relu(), Erf(), Gelu()):
        name = type(phi).__name__
        layers = [layer for _ in range(3) for layer in (Dense(width, **s), phi)]
        found[f"MLP of 3 layers, {name}"] = Sequential(*layers, Dense(1)), (8,)
        window = Conv(width, 3, **s)
        found[f"CNN of 2 layers, Flatten, {name}"] = Sequential(window, phi, window, phi, Flatten(), Dense(1)), (8, 2)
        group = Lift(TURNS, width, window=[0, 1], **s), phi, GroupConv(width, window=[0, 1], **s), phi
        found[f"C4 group convolutions, pooled, {name}"] = Sequential(*group, GroupPool(), Dense(1)), (4, 2)
    return found


def sampled(net: Sequential, x: np.ndarray) -> np.ndarray:
    """K̂ of the last features and Θ̂ of SAMPLES networks, (SAMPLES, 2, N, N)."""

    @jax.jit
    def one(key: jax.Array) -> jax.Array:
        params = net.init(key, x.shape[1:], dtype="float64")
        jacobian = jax.jacrev(lambda p: net.apply(p, jnp.asarray(x))[:, 0])(params)
        flat = lambda tree: jnp.concatenate([j.reshape((len(x), -1)) for j in jax.tree.leaves(tree)], axis=-1)
        return jnp.stack([j @ j.T for j in (flat(jacobian[-1]), flat(jacobian))])

    with precision.scope(np.float64):
        return np.asarray(jax.lax.map(one, jax.random.split(jax.random.key(0), SAMPLES), batch_size=25))


def compared(net: Sequential, x: np.ndarray) -> list[Any]:
    """Of K̂ and Θ̂: deviation of the mean and of the infinite kernel in standard errors, and the ratio of spreads."""
    began = time.process_time()
    k = et.kernels.finite_width(net, x)
    middle = time.process_time()
    found = sampled(net, x)
    ended = time.process_time()
    row: list[Any] = []
    upper = np.triu_indices(len(x))
    for i, (mean, std, correction) in enumerate(
        ((k.nngp, k.nngp_std, k.nngp_correction), (k.ntk, k.ntk_std, k.ntk_correction))
    ):
        spread = found[:, i].std(0, ddof=1)
        errors = spread / np.sqrt(SAMPLES)
        off = found[:, i].mean(0) - mean
        row += [np.max(np.abs(off / errors)), np.max(np.abs((off + correction) / errors))]
        row.append(float(np.mean((spread / std)[upper])))
    return [*row, middle - began, ended - middle]


def main() -> None:
    """Print the table: one row a network and width."""
    rng = np.random.default_rng(0)
    print("| network | width | K̂: mean | of K | spread | Θ̂: mean | of Θ | spread | s | sampling, s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    inputs: dict[tuple[int, ...], np.ndarray] = {}
    for name in networks(1):
        for width in WIDTHS:
            net, shape = networks(width)[name]
            x = inputs.setdefault(shape, rng.standard_normal((4, *shape)))
            a, b, c, d, e, f, g, h = compared(net, x)
            print(
                f"| {name} | {width} | {a:.1f} | {b:.1f} | {c:.3f} | {d:.1f} | {e:.1f} | {f:.3f} | {g:.1f} | {h:.0f} |"
            )


if __name__ == "__main__":
    main()
