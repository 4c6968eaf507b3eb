"""Which samples lie on one orbit of a group, and what leaves them alone: x_j = ρ(g_j) x_i, H_i = {h : ρ(h) x_i = x_i}.

A random projection s_i(g) = ⟨r, ρ(g) x_i⟩ tells candidates, the inputs themselves decide. Two inputs count as equal if
they agree to 1e-12 of the largest entry of all, or 16 units in the last place of float32 of their own largest entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import AnyAction, ArrayLike, Numbers
from equitangents.groups import Group
from equitangents.inference.augmented import row_tolerances

_LABEL_TOLERANCE = 1e-11  # of the largest label, to which labels of equal inputs must agree


@dataclass(frozen=True)
class DataOrbits:
    """N samples as N′ orbits with representatives x_o: x_j = ρ(element[j]) x_o, o = orbit[j].

    `first` (N′,) are the representatives' rows, `copies` (N′,) how many samples lie on each orbit, `stabilisers` the
    subgroups that fix a representative, of those alone where it is more than the identity.
    """

    group: Group
    first: Int[np.ndarray, " orbits"]
    orbit: Int[np.ndarray, " n"]
    element: Int[np.ndarray, " n"]
    stabilisers: dict[int, Int[np.ndarray, " size"]]

    @property
    def copies(self) -> Int[np.ndarray, " orbits"]:
        """Samples on each orbit."""
        return np.bincount(self.orbit, minlength=len(self.first))

    @property
    def generic(self) -> bool:
        """Whether no two samples share an orbit and no sample is fixed by anything."""
        return len(self.first) == len(self.orbit) and not self.stabilisers

    def mean_labels(
        self, y: Float[np.ndarray, "order n outputs"]
    ) -> tuple[Float[np.ndarray, "order orbits outputs"], bool]:
        """ȳ_o(g), the mean label of all augmented samples equal to ρ(g) x_o, and whether equal samples agree.

        y[g, j] is the label of ρ(g) x_j.
        """
        if self.generic:
            return y[:, self.first], True
        mean = np.zeros((y.shape[0], len(self.first), y.shape[2]))
        spreads = [0.0]
        for o in range(len(self.first)):
            fixed = [label for j in self._members(o) for label in self.labels_on_orbit(y, j)]
            mean[:, o] = np.mean(fixed, axis=0)
            spreads += [float(np.abs(a - mean[:, o]).max()) for a in fixed]
        return mean, bool(np.max(spreads) <= _LABEL_TOLERANCE * float(np.abs(y).max()))

    def labels_on_orbit(
        self, y: Float[np.ndarray, "order n outputs"], j: int
    ) -> list[Float[np.ndarray, "order outputs"]]:
        """Sample j's labels of ρ(g) x_o, o its orbit: one for every element that fixes x_o."""
        everything = np.arange(self.group.order)
        # ρ(h) x_j = ρ(h g_j) x_o
        moved = y[self.group._compose(everything, self.group.inverses[self.element[j]]), j]
        stabiliser = self.stabilisers.get(int(self.orbit[j]), np.array([self.group.identity]))
        return [moved[self.group._compose(everything, h)] for h in stabiliser]

    def _members(self, o: int) -> np.ndarray:
        return np.flatnonzero(self.orbit == o)


def find_orbits(action: AnyAction, x: Numbers) -> DataOrbits:
    """The orbits of x (N, …) under an exact action."""
    rows = np.asarray(x)
    n, order, identity = len(rows), action.group.order, action.group.identity
    tolerance = row_tolerances(rows)
    r = np.random.default_rng(0).normal(size=rows[0].size)
    r /= np.abs(r).sum()  # so that projections of rows within the tolerance are within it
    projected = np.stack([_flat(action(g, rows)) @ r for g in range(order)])
    slack = tolerance + 1e-14 * float(np.abs(projected).max())

    def equal(g: int, i: int, j: int) -> bool:
        return bool(np.abs(_flat(action(g, rows[i : i + 1])) - _flat(rows[j : j + 1])).max() <= tolerance[i])

    orbit, element = np.full(n, -1), np.full(n, identity)
    first: list[int] = []
    for group in _near(projected.max(axis=0), float(slack.max())):
        found: list[int] = []  # numbers of the orbits met in this group
        for j in group:
            starts = projected[:, [first[o] for o in found]].T
            for at, g in np.argwhere(np.abs(starts - projected[identity, j]) <= 2 * slack[j]).tolist():
                if equal(g, first[found[at]], j):
                    orbit[j], element[j] = found[at], g
                    break
            else:
                orbit[j] = len(first)
                found.append(len(first))
                first.append(int(j))
    # in the order of the data
    rank = np.argsort(np.argsort(first))
    orbit, first = rank[orbit], sorted(first)
    stabilisers = {}
    close = np.abs(projected[:, first] - projected[identity, first]) <= 2 * slack[first]
    close[identity] = False
    for at in map(int, np.flatnonzero(close.any(axis=0))):
        fixing = [int(g) for g in np.flatnonzero(close[:, at]) if equal(int(g), first[at], first[at])]
        if fixing:
            stabilisers[at] = np.flatnonzero(action.group._closure(fixing))
    return DataOrbits(action.group, np.array(first), orbit, element, stabilisers)


def _flat(x: ArrayLike) -> np.ndarray:
    return np.asarray(x, np.float64).reshape(len(x), -1)


def _near(key: np.ndarray, slack: float) -> list[np.ndarray]:
    """Indices in groups whose keys follow one another within `slack`, each group ascending."""
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order]) > slack) + 1
    return [np.sort(part) for part in np.split(order, edges)]
