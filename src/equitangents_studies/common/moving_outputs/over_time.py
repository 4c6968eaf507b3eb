"""Training on all moved copies, and the equivariant kernel without them, at every time: on the data and off them.

μ_t = B Θ⁻¹ (1 − e^{−Θt/N}) Y by the eigenvalues of Θ. Augmentation is explicit: N|G| inputs and targets, the network's
own kernel, no shortcut that rests on a theorem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from equitangents_studies.common.moving_outputs.kernels import (
    PairKernel,
    Symmetry,
    as_columns,
    moved_copies,
    moved_kernels,
    moved_targets,
)

MODELS = ("augmented", "equivariant", "plain")


def over_time(
    kernel: PairKernel,
    symmetry: Symmetry,
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    sets: Mapping[str, Float[np.ndarray, "some ..."]],
    positions: tuple[int, ...],
    units: Sequence[float],
) -> dict[str, Float[np.ndarray, "sets times"]]:
    """`error_model`: relative equivariance errors; `apart`: largest differences of augmented and equivariant means.

    Times are in units of N/λ_max of the equivariant kernel. An error is the root mean square of f(ρ(g)x) − ρ(g)f(x)
    over all g but the identity, relative to that of f; a difference is relative to the largest output of its set.
    """
    inputs, group = symmetry.inputs, symmetry.inputs.group
    shape = (*positions, symmetry.fibre)
    assert np.shape(y)[1:] == shape
    data = {
        "augmented": (moved_copies(symmetry, x), moved_targets(symmetry, y, positions)),
        "equivariant": (x, y),
        "plain": (x, y),
    }
    bare = Symmetry("", inputs)
    means: dict[str, dict[str, np.ndarray]] = {name: {} for name in MODELS}
    unit = 1.0
    for name in ("equivariant", "augmented", "plain"):
        seen, targets = data[name]
        one = symmetry if name == "equivariant" else bare
        built = lambda a, seen=seen, one=one: moved_kernels(kernel, {"": one}, a, seen, positions)[""]
        K = built(seen)
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        if name == "equivariant":
            unit = float(values[-1])
        rates = values / unit * (len(x) / len(seen))
        projected = vectors.T @ as_columns(targets, len(K))
        for key, z in sets.items():
            B = built(moved_copies(symmetry, z)) @ vectors
            found = np.stack([B @ (grown(values, rates, t)[:, None] * projected) for t in units])
            means[name][key] = found.reshape(len(units), len(symmetry.chosen), len(z), *shape)
    arrays = {
        f"error_{name}": np.array([[_error(symmetry, group.identity, m) for m in means[name][key]] for key in sets])
        for name in MODELS
    }
    pairs = {key: zip(means["augmented"][key], means["equivariant"][key], strict=True) for key in sets}
    arrays["apart"] = np.array([[np.abs(a - b).max() / np.abs(b).max() for a, b in pairs[key]] for key in sets])
    return arrays


def grown(values: np.ndarray, rates: np.ndarray, time: float) -> np.ndarray:
    """(1 − e^{−rate·time})/λ."""
    return -np.expm1(-rates * time) / values if np.isfinite(time) else 1 / values


def _error(symmetry: Symmetry, identity: int, mean: Float[np.ndarray, "order n ..."]) -> float:
    """Relative root mean square of f(ρ(g)x) − ρ(g) f(x)."""
    outputs = symmetry.outputs
    assert outputs is not None
    at = symmetry.chosen.index(identity)
    expected = np.stack([np.asarray(outputs(g, mean[at])) for g in symmetry.chosen])
    others = [i for i in range(len(mean)) if i != at]
    return float(np.sqrt(((mean - expected)[others] ** 2).mean() / (mean[at] ** 2).mean()))
