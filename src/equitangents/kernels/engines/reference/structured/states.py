"""States at the beginning of a structured program, of inputs or of kernels that are known, and kernels at its end."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference.carry import DISTANCE, Carry
from equitangents.kernels.engines.reference.structured.fields import Pairs, Side, State, covariances, of_covariances


class FieldKernels(NamedTuple):
    """Over all pairs of positions: K and Θ between two sets of inputs, (P, P', N1, N2), and K of each set's inputs with
    themselves, (P, P', N); masks (P, N) or None.
    """

    nngp: Any
    ntk: Any
    own1: Any
    own2: Any
    mask1: Any = None
    mask2: Any = None


def state_of_inputs(
    x1: ArrayLike, x2: ArrayLike, mask1: ArrayLike | None, mask2: ArrayLike | None, carry: Carry = DISTANCE
) -> State:
    """The state of inputs (P, N, C), with masks (N, P) or None."""
    side1, own1 = start(x1, mask1)
    side2, own2 = start(x2, mask2)
    d = carry.start(x1[:, None, :, None], x2[None, :, None, :])
    return State(side1, side2, own1, own2, Pairs(d, jnp.zeros_like(d)))


def start(x: Any, mask: Any) -> tuple[Side, Pairs]:
    """What is known of the inputs (P, N, C) alone."""
    d = jnp.mean((x[:, None] - x[None]) ** 2, axis=-1)
    side = Side(jnp.mean(x * x, axis=-1), jnp.mean(x, axis=-1), None if mask is None else jnp.swapaxes(mask, 0, 1))
    return side, Pairs(d, jnp.zeros_like(d))


def state_of_kernels(found: FieldKernels) -> State:
    """The state of a field of mean 0 with these kernels."""
    means = tuple(jnp.zeros((k.shape[0], k.shape[-1]), k.dtype) for k in (found.own1, found.own2))
    thetas = jnp.zeros_like(found.own1), jnp.zeros_like(found.own2), found.ntk
    ks = found.own1, found.own2, found.nngp
    return of_covariances(ks, thetas, means, (found.mask1, found.mask2), DISTANCE)  # type: ignore[arg-type]


def kernels_of_state(state: State) -> FieldKernels:
    """What a state holds, as kernels; zero where a mask leaves no position."""
    own1, own2, cross = covariances(state, DISTANCE)
    assert state.cross is not None
    ntk, masks = state.cross.theta, (state.one.mask, state.other.mask)
    if masks[0] is not None and masks[1] is not None:
        both = masks[0][:, None, :, None] & masks[1][None, :, None, :]
        cross, ntk = jnp.where(both, cross, 0), jnp.where(both, ntk, 0)
        own1, own2 = (jnp.where(m[:, None] & m[None], k, 0) for m, k in ((masks[0], own1), (masks[1], own2)))
    return FieldKernels(cross, ntk, own1, own2, *masks)
