"""Whether a kernel is invariant under an action: k(ρ(g)x, ρ(g)x') = k(x, x'), checked on a sample.

Inputs that every g leaves alone say nothing of it, so the sample holds, for each generator of the group, an input that
the generator moves. Where no input is moved, noise of the same size takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.kernels.result import KernelFunction
from equitangents.keywords import renamed

_SAMPLE = 4  # inputs, and
_ELEMENTS = 8  # group elements besides the generators, on which invariance is checked
_BLOCK = 256  # inputs that are looked through at once for one that is moved
_MOVED = 1e-6  # of the largest entry
_TOLERANCE = 1e-4, 1e-9  # of the invariance error in float32 and in float64


@renamed(kernel="net")
def kernel_invariance_error(net: KernelFunction, action: Action, *x: Any) -> float:
    """max |k(ρ(g)x, ρ(g)x') - k(x, x')| / max |k(x, x)| over a sample of all sets x and of g, NNGP and NTK."""
    samples = [moving_sample(action, part) for part in x]
    xp = np if all(isinstance(part, np.ndarray) for part in samples) else jnp
    # A kernel may be invariant between an input and itself, and not between it and a moved copy.
    copies = [action(int(g), samples[0][:1]) for g in action.group.generators[:1]]
    sample = xp.concatenate([*samples, *copies])
    return largest_change(net, sample, (action(g, sample) for g in sampled_elements(action)))


def largest_change(net: KernelFunction, x: ArrayLike, moved: Iterable[ArrayLike]) -> float:
    """max |k(x', x') - k(x, x)| / max |k(x, x)| over copies x' of all inputs, each moved alike, NNGP and NTK."""
    base = net.kernel(x)
    errors = [0.0]
    for copy in moved:
        found = net.kernel(copy)
        for a, b in ((base.nngp, found.nngp), (base.ntk, found.ntk)):
            scale = max(float(np.abs(np.asarray(a)).max()), 1e-300)
            errors.append(float(np.abs(np.asarray(a) - np.asarray(b)).max()) / scale)
    return float(np.max(errors))  # NaN if any is


def is_invariant(net: KernelFunction, action: Action, *x: Any) -> bool:
    """Whether the kernel does not change when both inputs are moved alike, to rounding, on a sample of all sets x."""
    return action.exact and kernel_invariance_error(net, action, *x) <= tolerance(*x)


def tolerance(*x: Any) -> float:
    """How large the invariance error may be by rounding, for kernels in the precision of x."""
    return _TOLERANCE[0] if any(np.dtype(part.dtype) == np.float32 for part in x) else _TOLERANCE[1]


def sampled_elements(action: Action) -> list[int]:
    """All generators, as a kernel may well be invariant under a subgroup, and some others."""
    others = np.linspace(0, action.group.order - 1, _ELEMENTS)
    chosen = np.unique(np.concatenate([action.group.generators, others]).astype(int))
    return [int(g) for g in chosen if g != action.group.identity]


def moving_sample(action: Action, x: ArrayLike) -> ArrayLike:
    """Some of x, evenly spaced, and what else it takes for each generator to move one of them."""
    sample = x[:: max(1, len(x) // _SAMPLE)][:_SAMPLE]
    unmoved = [g for g in map(int, action.group.generators) if not _moved(action, g, sample).any()]
    found: set[int] = set()
    for start in range(0, len(x), _BLOCK):
        block = x[start : start + _BLOCK]
        for g in list(unmoved):
            moved = _moved(action, g, block)
            if moved.any():
                found.add(start + int(moved.argmax()))
                unmoved.remove(g)
        if not unmoved:
            break
    xp = np if isinstance(x, np.ndarray) else jnp
    parts = [sample, x[np.array(sorted(found), int)]]
    if unmoved:
        size = float(np.abs(np.asarray(x)).max()) or 1.0
        noise = np.random.default_rng(0).normal(size=(2, *x.shape[1:])) * size
        parts.append(xp.asarray(noise, x.dtype))
    return xp.concatenate(parts)


def _moved(action: Action, g: int, x: ArrayLike) -> np.ndarray:
    """Which inputs g does not leave as they are, (N,)."""
    x = np.asarray(x)
    change = np.abs(np.asarray(action(g, x)) - x).reshape(len(x), -1).max(axis=1)
    return change > _MOVED * float(np.abs(x).max())
