"""Values at single positions of an output: a point is (input, position), a field's kernel one of points.

Θ((x, p), (x′, p′)) = E[Σ_μ ∂_μ f(x)(p) ∂_μ f(x′)(p′)]. A data set of N fields on P positions is one of N·P points with
one value each (for every output channel), so that training on fields is the training of any other regression.

A group moves them as g (x, p) = (ρ_X(g) x, π_g p). Where the kernel is invariant, Θ(g z, g z′) = Θ(z, z′) for points z,
all that holds of augmented inputs holds of points: the copy g of (x_i, p) has the target (ρ_Y(g) y_i)(π_g p).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import ArrayLike, DataRows, Elements
from equitangents.actions import Action
from equitangents.inference.augmented import DataOrbits, find_orbits, row_digests


@dataclass(frozen=True, eq=False)
class FieldPoints:
    """Points (signals[image], position), in arrays of any shape; it is sliced, indexed and reshaped as an array is.

    signals (n, *positions, C): inputs. image, position: whole numbers, both of one shape. count: P, the positions of an
    output. As an array it has the shape (*shape of image, *shape of a signal).
    """

    signals: ArrayLike
    image: np.ndarray
    position: np.ndarray
    count: int

    @staticmethod
    def of(signals: ArrayLike, count: int) -> FieldPoints:
        """All positions of all signals, position by position, (n·P,)."""
        n = len(signals)
        return FieldPoints(signals, np.repeat(np.arange(n), count), np.tile(np.arange(count), n), count)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array that holds a signal for every point."""
        return (*self.image.shape, *self.signals.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """The type of the signals' numbers."""
        return np.dtype(self.signals.dtype)

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Any) -> FieldPoints:
        return FieldPoints(self.signals, self.image[index], self.position[index], self.count)

    def reshape(self, *shape: int) -> FieldPoints:
        """Points in another shape, of which the signals' axes are the last."""
        own = shape[: len(shape) - self.signals.ndim + 1]
        return FieldPoints(self.signals, self.image.reshape(own), self.position.reshape(own), self.count)

    def digests(self) -> list[bytes]:
        """Equal for points at one position of equal signals, as `row_digests` has it."""
        of_signals = row_digests(self.signals)
        return [of_signals[i] + int(p).to_bytes(4, "little") for i, p in zip(self.image, self.position, strict=True)]

    def blocks(self, numbers: int) -> list[slice]:
        """Points in parts of at most `numbers`, each of whole signals where points lie signal by signal."""
        step = max(1, numbers // self.count) * self.count if numbers >= self.count else numbers
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), max(1, step))]


class PointAction(Action):
    """The action on points that an action on signals makes with a table of positions, (|G|, P)."""

    def __init__(self, action: Action, table: np.ndarray) -> None:
        vars(self).update(
            group=action.group, exact=action.exact, name=action.name, action=action, table=np.asarray(table)
        )

    action: Action
    table: np.ndarray

    def __call__(self, g: int, x: FieldPoints) -> FieldPoints:
        """The points g z for points z of any shape."""
        return FieldPoints(self.action(g, np.asarray(x.signals)), x.image, self.table[g][x.position], x.count)

    def orbit(self, x: FieldPoints, elements: Elements = None) -> FieldPoints:
        """All g z along a new first axis."""
        chosen = np.arange(self.group.order) if elements is None else self.check_elements(elements)
        images, at = np.unique(x.image, return_inverse=True)
        signals = self.action.orbit(np.asarray(x.signals)[images], chosen)
        image = np.arange(len(chosen)).reshape(-1, *(1,) * x.image.ndim) * len(images) + at.reshape(x.image.shape)
        moved = signals.reshape(-1, *signals.shape[2:])
        return FieldPoints(moved, image, self.table[chosen][:, x.position], x.count)

    def at_positions(self, values: np.ndarray, elements: int) -> np.ndarray:
        """Entry (g, p) from entry (g, π_g⁻¹ p): `elements` is the axis of g, and that of positions is the next one."""
        back = np.argsort(self.table, axis=1)
        moved = np.moveaxis(values, (elements, elements + 1), (0, 1))
        moved = moved[np.arange(len(self.table))[:, None], back]
        return np.moveaxis(moved, (0, 1), (elements, elements + 1))

    def data_orbits(self, x: FieldPoints) -> DataOrbits:
        """Which points lie on one orbit, from the orbits of their signals: no kernel and no copy of signals is needed.

        x_j = ρ(g_j) x_o, so that the point (x_j, p) is g_j (x_o, g_j⁻¹ p); of the points of x_o those on one orbit of
        its stabiliser are equal up to it.
        """
        of, group = find_orbits(self.action, np.asarray(x.signals)), self.group
        if of.generic:
            everything = np.arange(len(x))
            return DataOrbits(group, everything, everything, np.full(len(x), group.identity), {})
        fixing = [of.stabilisers.get(o, np.array([group.identity])) for o in range(len(of.first))]
        # by a signal's orbit and the smallest position: a number, the representative, what takes (x_o, smallest) to it
        found: dict[tuple[int, int], tuple[int, int, int]] = {}
        orbit, element = np.empty(len(x), int), np.empty(len(x), int)
        for k, (i, p) in enumerate(zip(x.image.tolist(), x.position.tolist(), strict=True)):
            o, g = int(of.orbit[i]), int(of.element[i])
            places = self.table[fixing[o], self.table[group.inverses[g]][p]]
            at = int(places.argmin())
            # fixing[at] takes (x_o, g⁻¹ p) to (x_o, smallest): z_k = g · fixing[at]⁻¹ (x_o, smallest)
            here = group.compose(g, int(group.inverses[fixing[o][at]]))
            orbit[k], _, start = found.setdefault((o, int(places[at])), (len(found), k, here))
            element[k] = group.compose(here, int(group.inverses[start]))
        stabilisers = {}
        for (o, smallest), (number, _, start) in found.items():
            held = fixing[o][self.table[fixing[o], smallest] == smallest]
            if len(held) > 1:  # of the representative itself: start · held · start⁻¹
                mine = group._compose(group._compose(np.full(len(held), start), held), group.inverses[start])
                stabilisers[number] = np.sort(mine)
        return DataOrbits(group, np.array([k for _, k, _ in found.values()]), orbit, element, stabilisers)

    def _check_signals(self, x: DataRows) -> DataRows:
        return x

    def _act(self, g: int, x: DataRows) -> DataRows:
        return self(g, x)

    def _key(self) -> tuple[Any, ...]:
        return (self.action, self.table.tobytes())
