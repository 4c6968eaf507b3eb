"""Kernels between images and their copies under every element of a group, each pair of inputs once.

Θ_g(x, x′) = Θ(x, ρ(g)x′); of an invariant kernel Θ_{g⁻¹} = Θ_gᵀ, and the mean over a subgroup H is the kernel of the
network that is invariant under H (arXiv 2406.06504, Theorem 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import KeptKernel, kernel_invariance_error

_INVARIANT = 1e-5  # relative: float32 rounds kernels to about 1e-6


def element_kernels(
    kernel: KeptKernel, action: Action, x: Float[np.ndarray, "n ..."], step: Callable[[float, float], None]
) -> dict[int, np.ndarray]:
    """The NTK Θ_g, (N, N), for one element of each pair g, g⁻¹; `step(done, total)` counts tiles.

    Raises InvalidArgumentError where the kernel of single images is not invariant, so that one orbit does not suffice.
    """
    group, n = action.group, len(x)
    error = kernel_invariance_error(kernel.net, action, x[:3])
    if not error <= _INVARIANT:
        raise InvalidArgumentError(f"the kernel is not invariant under {action.name}: relative error {error:.1e}")
    elements = [g for g in range(group.order) if g <= group.inverse(g)]
    slices = kernel.slices(n)
    tiles = [(g, a, b) for g in elements for a in slices for b in slices if group.inverse(g) != g or b.start >= a.start]
    grams = {g: np.empty((n, n), x.dtype) for g in elements}
    moved: dict[int, np.ndarray] = {}
    read = 0
    for done, (g, a, b) in enumerate(tiles, 1):
        if g not in moved:
            moved = {g: np.asarray(action(g, x))}
        same = g == group.identity and a == b
        found, known = kernel.one_tile(x[a], None if same else moved[g][b])
        read += known
        grams[g][a, b] = block = found.ntk
        if group.inverse(g) == g and a != b:
            grams[g][b, a] = block.T
        step(done, len(tiles))
    kernel.report(read, len(tiles))
    return grams


def subgroup_mean(grams: Mapping[int, np.ndarray], action: Action, elements: Iterable[int]) -> np.ndarray:
    """The mean of Θ_g over `elements`, a subgroup, in float64; exactly symmetric."""
    chosen = list(elements)
    total = sum(np.asarray(grams[g] if g in grams else grams[action.group.inverse(g)].T, np.float64) for g in chosen)
    mean = np.asarray(total) / len(chosen)
    return (mean + mean.T) / 2


def elements_of(part: Action, whole: Action, x: Float[np.ndarray, "n ..."]) -> list[int]:
    """The elements of `whole` that move the inputs x as those of `part` do, in the order of `part`."""
    copies = np.asarray(whole.orbit(x))
    return [
        int(np.argmax([np.array_equal(image, np.asarray(part(h, x))) for image in copies]))
        for h in range(part.group.order)
    ]
