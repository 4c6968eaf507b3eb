"""The explicit problem of full augmentation: {(ρ_X(g) x_i, ρ_Y(g) y_i) : g ∈ G}, N|G| samples, g the slowest index.

Equal samples may be merged: m copies of one input with one target act like one sample whose rows and columns of Θ and
K and whose target are multiplied by √m, at every time and with every ridge (the other m − 1 directions are in the
null space of Θ and hold no target). So inputs fixed by some g need not make the system singular.

Samples on one orbit, and their stabilisers: x_j = ρ(g_j) x_i, H_i = {h : ρ(h) x_i = x_i}. A random projection
s_i(g) = ⟨r, ρ(g) x_i⟩ finds candidates; the inputs themselves are then compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents._types import AnyAction, ArrayLike, Element, Numbers
from equitangents.errors import ShapeError
from equitangents.groups import Group
from equitangents.groups.group import GroupMap

_ROWS = 256  # whose digests are made together
_LABEL_TOLERANCE = 1e-11  # of the largest label, to which labels of equal inputs must agree


def augment_inputs(action: AnyAction, x: ArrayLike) -> ArrayLike:
    """All ρ_X(g) x_i, shape (|G|·N, …), in the order of `action.orbit`; for a subset of an action only its elements."""
    orbit = action.orbit(x)
    return orbit.reshape(-1, *x.shape[1:])


def augment_targets(label_action: GroupMap | None, y: np.ndarray, elements: Iterable[Element]) -> np.ndarray:
    """ρ_Y(g) y_i for all g in `elements`, shape (size·N, …); without a label action copies keep their targets."""
    if label_action is None:
        return np.concatenate([y] * len(list(elements)))
    moved = [np.asarray(label_action(int(g) if np.ndim(g) == 0 else g, y), dtype=np.float64) for g in elements]
    if moved[0].shape != y.shape:
        raise ShapeError(
            "label_action", moved[0].shape, y.shape, "it must keep the shape", verb="gives targets of shape"
        )
    return np.concatenate(moved)


def row_tolerances(a: Numbers) -> np.ndarray:
    """Largest difference between rows that count as equal, (N,); symmetries by matrices are exact only up to rounding.

    1e-12 of the largest entry of all, though at most 1e-9 of the row's own largest entry: one large
    sample must not make all small ones equal. At least 16 units in the last place of that entry.
    """
    a = np.asarray(a)
    largest = np.abs(a.reshape(len(a), -1).astype(np.float64)).max(axis=1)
    return np.maximum(
        np.minimum(1e-12 * float(largest.max()), 1e-9 * largest), 16 * float(jnp.finfo(a.dtype).eps) * largest
    )


def row_digests(a: Numbers) -> list[bytes]:
    """A digest of each row, equal for rows that agree up to rounding (`row_tolerances`)."""
    a = np.asarray(a)
    # Powers of two, as equal rows agree in their largest entry only to rounding; 1.37 moves steps off round numbers.
    tolerances = 1.37 * row_tolerances(a)
    powers = np.floor(np.log2(np.where(tolerances > 0, tolerances, 1.0)))[:, None]
    rows, found = a.reshape(len(a), -1), []
    for start in range(0, len(a), _ROWS):
        at = slice(start, start + _ROWS)
        steps = np.rint(rows[at].astype(np.float64) / np.exp2(powers[at]))
        keys = np.concatenate([steps, powers[at]], axis=1).astype(np.int64)
        found += [hashlib.blake2b(key.tobytes(), digest_size=16).digest() for key in keys]
    return [digest if tolerance > 0 else b"" for digest, tolerance in zip(found, tolerances, strict=True)]


def kinds(*digests: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """(first index of each distinct row, the distinct row that each row equals); rows are equal if all digests are.

    >>> first, kind = kinds([b"a", b"b", b"a"])
    >>> first.tolist(), kind.tolist()
    ([0, 1], [0, 1, 0])
    """
    seen: dict[tuple[bytes, ...], int] = {}
    first: list[int] = []
    kind: list[int] = []
    for i, row in enumerate(zip(*digests, strict=True)):
        at = seen.setdefault(row, len(first))
        if at == len(first):
            first.append(i)
        kind.append(at)
    return np.array(first), np.array(kind, dtype=np.intp)


@dataclass(frozen=True)
class DataOrbits:
    """N samples as N′ orbits with representatives x_o: x_j = ρ(element[j]) x_o, o = orbit[j].

    `first` (N′,) are the representatives' rows, `copies` (N′,) the number of samples on each orbit, `stabilisers` the
    non-trivial subgroups that fix a representative.
    """

    group: Group
    first: Int[np.ndarray, " orbits"]
    orbit: Int[np.ndarray, " n"]
    element: Int[np.ndarray, " n"]
    stabilisers: dict[int, Int[np.ndarray, " size"]]

    @property
    def copies(self) -> Int[np.ndarray, " orbits"]:
        """Number of samples on each orbit."""
        return np.bincount(self.orbit, minlength=len(self.first))

    @property
    def generic(self) -> bool:
        """Whether no two samples share an orbit and all stabilisers are trivial."""
        return len(self.first) == len(self.orbit) and not self.stabilisers

    def mean_labels(
        self, y: Float[np.ndarray, "order n outputs"]
    ) -> tuple[Float[np.ndarray, "order orbits outputs"], bool]:
        """ȳ_o(g), the mean label of all augmented samples equal to ρ(g) x_o, and whether equal samples agree.

        y[g, j] is the label of ρ(g) x_j.
        """
        if self.generic:
            return y[:, self.first], True
        mean, compose = np.zeros((y.shape[0], len(self.first), y.shape[2])), self.group._compose
        elements, deviations = np.arange(self.group.order), [0.0]
        for o in range(len(self.first)):
            fixing = self.stabilisers.get(o, np.array([self.group.identity]))
            labels = []  # each sample's of ρ(g) x_o, one for every element that fixes x_o: ρ(h) x_j = ρ(h g_j) x_o
            for j in np.flatnonzero(self.orbit == o):
                moved = y[compose(elements, self.group.inverses[self.element[j]]), j]
                labels += [moved[compose(elements, h)] for h in fixing]
            mean[:, o] = np.mean(labels, axis=0)
            deviations += [float(np.abs(a - mean[:, o]).max()) for a in labels]
        return mean, bool(np.max(deviations) <= _LABEL_TOLERANCE * float(np.abs(y).max()))


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
    """Groups of indices whose sorted keys differ by at most `slack` from one to the next; each group ascending."""
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order]) > slack) + 1
    return [np.sort(part) for part in np.split(order, edges)]
