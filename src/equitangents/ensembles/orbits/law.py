"""What networks do along orbits {ρ(g)x : g ∈ G}, as a Gaussian law: jointly over the elements of an orbit.

One network:             f(ρ(g)x) ~ N(μ_g, Σ_gh), outputs independent of one another
the mean of M networks:  f̄(ρ(g)x) ~ N(μ_g, Σ_gh/M)

Ensembles are drawn jointly over all inputs, f̄ = μ + ε/√M, ε ~ N(0, Σ); the same draws of ε serve every M, so that
statistics move smoothly with M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents._types import AnyModel, Key, Numbers, Times
from equitangents.actions import as_action
from equitangents.actions.action import Action
from equitangents.actions.kinds import ActionLike
from equitangents.errors import InvalidTypeError
from equitangents.groups.group import OrbitMap
from equitangents.inference.draws import as_key
from equitangents.memory import check_memory
from equitangents.validation import check_array, check_whole

_TEMPORARIES = 3  # arrays of all draws that sampling holds at once


def is_own_action(ensemble: object, action: object) -> bool:
    """Whether the orbits are those that the ensemble was augmented with, so that it knows a shorter way to them."""
    own = getattr(ensemble, "augmentation_", None)
    return own is not None and hasattr(ensemble, "sample_orbits") and action == own


def orbit_batch(action: OrbitMap, x: Numbers) -> np.ndarray:
    """All ρ(g)x_i as one batch (n·|G|, …), g fastest."""
    orbit = np.moveaxis(np.asarray(action.orbit(x)), 0, 1)
    return orbit.reshape(-1, *orbit.shape[2:])


def check_orbit_inputs(action: ActionLike, x: Numbers) -> tuple[Action, np.ndarray]:
    """(the action, by name or as it is; x in float64 that it can act on); raises before anything is computed."""
    signals = np.asarray(check_array("x", x), np.float64)
    chosen = as_action("action", action, signals.shape)
    if not (callable(chosen) and hasattr(chosen, "group") and hasattr(chosen, "orbit")):
        raise InvalidTypeError("action", chosen, "an action, e.g. equitangents.actions.image_rotations(4)")
    chosen(chosen.group.identity, signals[:1])
    return chosen, signals


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
    ensemble: AnyModel, action: ActionLike, x: Numbers, *, draws: int, key: Key, time: Times | None = None
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
