"""Ensembles of M infinitely wide networks on orbits, drawn jointly over all inputs: f̄ = μ + ε/√M, ε ~ N(0, Σ).

The same draws of ε serve every M, so that statistics move smoothly with M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents._types import Key, Numbers, Times
from equitangents.actions.named import ActionLike
from equitangents.ensembles.orbits.covariance import check_orbit_inputs, is_own_action, orbit_batch
from equitangents.inference.draws import as_key
from equitangents.memory import check_memory
from equitangents.validation import check_whole

_TEMPORARIES = 3  # arrays of all draws that sampling holds at once


@dataclass(frozen=True, eq=False)
class OrbitLaw:
    """mean (n, |G|, K) of infinitely many networks; fluctuations (draws, n, |G|, K) of single ones about it.

    offsets (draws, n, 1 or |G|, K): by how much the mean itself may be off, drawn along; None where it is known.
    """

    mean: Float[np.ndarray, "n order outputs"]
    fluctuations: Float[np.ndarray, "draws n order outputs"]
    offsets: Float[np.ndarray, "draws n points outputs"] | None = None

    @property
    def draws(self) -> int:
        """How many ensembles are drawn."""
        return len(self.fluctuations)

    def ensembles(self, members: int, draws: slice = slice(None)) -> Float[np.ndarray, "draws n order outputs"]:
        """The mean outputs of ensembles of `members` networks."""
        return self.mean + self.fluctuations[draws] / np.sqrt(members) + self._off(draws)

    def means(self, draws: slice = slice(None)) -> Float[np.ndarray, "draws n order outputs"]:
        """The mean outputs of infinitely many networks, in as many draws as it differs in, one if it is known."""
        return (self.mean + self._off(draws)) if self.offsets is not None else self.mean[None]

    def _off(self, draws: slice) -> np.ndarray | float:
        return 0.0 if self.offsets is None else self.offsets[draws]


def orbit_law(
    ensemble: Any, action: ActionLike, x: Numbers, *, draws: int, key: Key, time: Times | None = None
) -> OrbitLaw:
    """`draws` networks on the orbits of x (n, …), jointly over inputs and group elements.

    ensemble: a fitted `InfiniteEnsemble`, or anything with `predict` and `sample` like it. key: a jax.random key or a
    whole number. Needs the covariance of all n|G| points, unless `action` is the ensemble's own augmentation, whose
    irreps are drawn one by one; raises MemoryLimitError for what is too large. Outputs that are fields have all their
    numbers in one row, K.
    """
    check_whole("draws", draws, 2)
    key = as_key("key", key)
    action, x = check_orbit_inputs(action, x)
    points, order = len(x) * action.group.order, action.group.order
    own, grid = is_own_action(ensemble, action), math.prod(getattr(ensemble, "positions_", ()))
    points, outputs = points * grid, getattr(ensemble, "n_outputs_", 1)
    needed = 8 * ((0 if own else 4 * points**2) + _TEMPORARIES * draws * points * outputs)
    check_memory(
        f"{draws} draws on {len(x)} orbits of {order} points",
        needed,
        getattr(ensemble, "memory_limit", None),
        "ask for fewer inputs or draws",
    )
    if own:
        mean, networks = ensemble.predict_orbit_means(x, time), ensemble.sample_orbits(x, draws, key=key, time=time)
        mean = mean.reshape(len(x), order, -1)
    else:
        batch = orbit_batch(action, x)
        mean = np.asarray(ensemble.predict(batch, time=time), np.float64).reshape(len(x), order, -1)
        networks = np.asarray(ensemble.sample(batch, draws, key=key, time=time), np.float64)
    return OrbitLaw(mean, networks.reshape(draws, *mean.shape) - mean)
