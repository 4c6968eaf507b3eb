"""Nonlinear operations of steerable programs, from the covariances of jointly Gaussian vectors at two points.

Gates: E[σ(g)σ(g')] K and E[σσ'] Θ + E[σ̇σ̇'] Θ_0 ∘ K, the gates g being copies of the irrep of numbers, independent of
what they multiply. Sampled signals: s(x) = Σ_l h_l(x) · f_l is Gaussian, with covariance Σ_l h_l(x)ᵀ K_l h_l(x').
"""

from __future__ import annotations

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.steerable.fields import Field, Fields, Variances
from equitangents.kernels.steerable.norms import gaussian_sums
from equitangents.kernels.steerable.program import Gate, Norm, Sampled
from equitangents.steerable import samples
from equitangents.steerable.irrep import SPACES, trivial


def gated(op: Gate, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Gate`."""
    number = trivial(op.into.group)
    k, theta = (f[:, 0, :, 0] for f in fields[number])
    q1, q2 = v1[number][:, 0, 0][:, None], v2[number][:, 0, 0][None, :]
    after: Fields = {}
    value, slope = (f[:, None, :, None] for f in op.gate.covariance(k, q1, q2))
    for kind in op.out.irreps:
        if kind == number:
            assert op.scalars is not None
            moved, rise = op.scalars.covariance(k, q1, q2)
            after[kind] = Field(moved[:, None, :, None], (rise * theta)[:, None, :, None])
        else:
            own, tangent = fields[kind]
            after[kind] = Field(value * own, value * tangent + slope * theta[:, None, :, None] * own)
    return after


def sampled(op: Sampled, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Sampled` nonlinearity."""
    dtype = fields[op.irreps[0]].k.dtype
    largest = max(kind.degree for kind in op.irreps)
    grid = samples(SPACES[op.irreps[0].group], op.resolution, largest)
    synthesis = {kind: jnp.asarray(grid.harmonics[kind.degree], dtype) for kind in op.irreps}
    analysis = {kind: jnp.asarray(grid.analysis[kind.degree], dtype) for kind in op.irreps}
    k, theta = (
        sum(
            jnp.einsum("sa,iajb,tb->isjt", h, fields[kind][part], h, precision="highest")
            for kind, h in synthesis.items()
        )
        for part in range(2)
    )
    q1, q2 = (
        sum(jnp.einsum("sa,iab,sb->is", h, v[kind], h, precision="highest") for kind, h in synthesis.items())
        for v in (v1, v2)
    )
    value, slope = op.activation.covariance(k, q1[:, :, None, None], q2[None, None])  # type: ignore[index]
    return {
        kind: Field(*(jnp.einsum("as,isjt,bt->iajb", a, f, a, precision="highest") for f in (value, slope * theta)))
        for kind, a in analysis.items()
    }


def normed(op: Norm, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Norm`."""
    after: Fields = {}
    for kind, (k, theta) in fields.items():
        by_pair = (jnp.swapaxes(f, 1, 2) for f in (k, theta))
        moved = gaussian_sums(op.coefficients, op.rates, v1[kind], v2[kind], *by_pair)
        after[kind] = Field(*(_by_point(f) for f in moved))
    return after


def _by_point(f: ArrayLike) -> ArrayLike:
    return jnp.swapaxes(f, 1, 2)
