"""Sketches of a random network's Jacobian: features of its neural tangent kernel.

Of an affine map that takes h(p) and whose results change the output by δ(p), the Jacobian by the weights is
G = Σ_p h(p) ⊗ δ(p), and by the bias Σ_p δ(p); ⟨G, G'⟩ = Σ_pp' K(p, p') D(p, p') is the map's part of Θ. Two things make
it cheap. Of the C × C weights only those within blocks of `BLOCK` channels count, times C / BLOCK: each block is an
estimate of K·D of its own, so that this costs little in accuracy, and C · BLOCK products a position in place of C². And
the numbers are added into `count` features with random signs, which keeps products of vectors in expectation, with a
relative spread of 1/√count (Charikar, Chen & Farach-Colton 2002).
The output is the sum of all channels with random signs. Source: arXiv 2106.07880 for features of the NTK by its
recursion; here derivatives come by one pass backwards.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.branches import flat
from equitangents.kernels.operations import Affine
from equitangents.kernels.program import Program
from equitangents.kernels.random_features.forward import Field, run

BLOCK = 64  # channels whose weights count with each other


def sketch(
    program: Program, field: Field, drawn: list[object], signs: tuple[ArrayLike, list[ArrayLike]], count: int
) -> jax.Array:
    """Features (B, count) of Θ, for the field of inputs at the program's start."""
    affine = [op for op in flat(program.ops) if isinstance(op, Affine)]
    readout, own = signs

    def output(shifts: list[jax.Array] | None) -> tuple[jax.Array, list[jax.Array]]:
        taken: list[jax.Array] = []

        def shift(h: jax.Array) -> jax.Array:
            taken.append(h)
            return jnp.zeros_like(h) if shifts is None else shifts[len(taken) - 1]

        return run(program.ops, field, drawn, shift).f[:, 0], taken

    shapes = jax.eval_shape(lambda: output(None)[1])
    f, back, taken = jax.vjp(output, [jnp.zeros(h.shape, h.dtype) for h in shapes], has_aux=True)
    (slopes,) = back(jnp.broadcast_to(readout.astype(f.dtype) / f.shape[-1] ** 0.5, f.shape))
    each = zip(affine, taken, slopes, own, strict=True)
    return sum((_added(_jacobian(*part), d, count) for *part, d in each), jnp.zeros((f.shape[0], count), f.dtype))


def _jacobian(op: Affine, h: jax.Array, slope: jax.Array) -> jax.Array:
    """(B, m · BLOCK + m): derivatives by the weights within blocks, and by the biases."""
    weights, biases = op.rates or (op.W_var, op.b_var)
    one, other = (v.reshape((*v.shape[:2], -1, BLOCK)) for v in (h, slope))
    by_weights = jnp.einsum("bpgi,bpgj->bgij", one, other, precision="highest") * (weights / BLOCK) ** 0.5
    return jnp.concatenate([by_weights.reshape((len(h), -1)), biases**0.5 * slope.sum(axis=1)], axis=1)


def _added(x: jax.Array, signs: ArrayLike, count: int) -> jax.Array:
    """Numbers (B, n) with signs, added in turn to `count` ones."""
    signed = jnp.pad(x * signs.astype(x.dtype), ((0, 0), (0, -x.shape[1] % count)))
    return signed.reshape((len(x), -1, count)).sum(axis=1)
