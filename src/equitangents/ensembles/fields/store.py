"""The kernel between all points of a training set as a Gram store: a row of it is one point.

A row says which signal and which position a point is of, and has a hash of the signal, so that a store is refused to
other signals and grows with new ones.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, cast

import numpy as np

from equitangents._types import ArrayLike, FileName
from equitangents.actions.action import GroupAction
from equitangents.ensembles.fields.kernel import FieldKernel, PointKernel, TurningField
from equitangents.ensembles.fields.points import FieldPoints, PointAction
from equitangents.errors import InvalidTypeError
from equitangents.kernels import Kernels
from equitangents.kernels.store import described
from equitangents.nn.sequential import Sequential, described_field
from equitangents.scale import GramStore
from equitangents.scale.identity import SelfDescribed, action_hash, engine_of, network_hash
from equitangents.scale.record import read_record
from equitangents.tiles.place import place

_POINTS = 2048  # of a tile's side: whole signals
_HASHED = 4  # numbers of a row that are a hash of 96 bits, each exact in float32


class PointRows(SelfDescribed):
    """A kernel of points as one of rows (signal, position, hash), which are numbers of `signals`, (n, *positions, C).

    count: P, the positions of an output.
    """

    def __init__(self, points_kernel: PointKernel, signals: ArrayLike, count: int) -> None:
        self.points_kernel, self.signals, self.count = points_kernel, signals, count

    def kernel(self, x1: np.ndarray, x2: np.ndarray | None = None) -> Kernels:
        """NNGP and NTK between rows."""
        found = self.points_kernel.kernel(self._points(x1), None if x2 is None else self._points(x2))
        return Kernels(np.asarray(found.nngp), np.asarray(found.ntk), engine=self.engine)

    def rows(self, x: FieldPoints) -> np.ndarray:
        """The rows of points of the signals, (points, 2 + 4)."""
        hashes = [hashlib.sha256(np.ascontiguousarray(signal).tobytes()).digest() for signal in np.asarray(x.signals)]
        numbers = np.array([np.frombuffer(each[: 3 * _HASHED], np.uint8) for each in hashes]).reshape(-1, _HASHED, 3)
        return np.column_stack([x.image, x.position, (numbers @ [1, 256, 65536])[x.image]]).astype(x.dtype)

    @cached_property
    def description(self) -> str:
        """What the kernels depend on but for the points; InvalidTypeError for networks of others."""
        action = getattr(self.points_kernel, "action", None)
        return f"points of {self._network}{'' if action is None else _described(action, self.signals.shape[1:])}"

    @cached_property
    def engine(self) -> str:
        """The name of the engine that computes the field."""
        net = self._base.net
        if isinstance(net, TurningField):
            return engine_of(net.net, self.signals.shape[1:], np.dtype(self.signals.dtype))
        return str(cast(Any, net).kernel_field(np.asarray(self.signals[:1])).engine)

    def __repr__(self) -> str:
        return f"the field of {self._base.net!r}"

    @property
    def _base(self) -> FieldKernel:
        return cast(FieldKernel, getattr(self.points_kernel, "base", self.points_kernel))

    @property
    def _network(self) -> str:
        net, shape = self._base.net, self.signals.shape[1:]
        if isinstance(net, TurningField):
            return network_hash(net.net, shape)
        if isinstance(net, Sequential):
            return hashlib.sha256(described_field(net, shape).encode()).hexdigest()
        remedy = (
            "a store takes networks of equitangents.nn: the content of others has no description, so that it could "
            "not tell them apart"
        )
        raise InvalidTypeError("net", net, remedy=remedy)

    def _points(self, rows: np.ndarray) -> FieldPoints:
        image, position = rows[:, :2].T.astype(int)
        return FieldPoints(self.signals, image, position, self.count)


def field_store(path: FileName, kernel: PointKernel, x: FieldPoints) -> GramStore:
    """The store of NNGP and NTK of points x with themselves in the folder `path`, made if there is none."""
    rows = PointRows(kernel, x.signals, x.count)
    is_new = read_record(place("store", path)) is None
    tile = min(len(x), max(1, _POINTS // x.count) * x.count) if is_new else None
    return GramStore(path, cast(Any, rows), rows.rows(x), tile=tile, precision=x.dtype.name)


def _described(action: PointAction | GroupAction, shape: tuple[int, ...]) -> str:
    points = cast(PointAction, action)
    return f" {action_hash(points.action, shape)} {described(points.table)}"
