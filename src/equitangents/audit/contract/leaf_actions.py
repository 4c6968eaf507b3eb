"""How a group acts on one array of a model's inputs or outputs, NumPy in and NumPy out, channels where they are.

Every action here keeps shapes; ρ(g) is linear in the array, or relabels indices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, final

import numpy as np

from equitangents.actions import Action
from equitangents.actions.remedies import flattened
from equitangents.audit.contract.turning import Turner
from equitangents.errors import InvalidTypeError, ShapeError

Layout = Literal["channels_last", "channels_first"]


class LeafAction(ABC):
    """An action on one array (N, …)."""

    name: str
    exact: bool = True
    layout: Layout | None = None
    """Not None: acts on images (or grids), whose channels are there."""
    needs_floats: bool = False

    @abstractmethod
    def check(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError, naming `name`, unless the action can act on x."""

    @abstractmethod
    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """ρ(g) x."""

    def orbit(self, elements: Sequence[Any], x: np.ndarray) -> Iterator[np.ndarray]:
        """ρ(g) x for one element after another."""
        for g in elements:
            yield self.act(g, x)

    def moves_exactly(self, g: Any) -> bool:
        """Whether ρ(g) moves values without resampling them."""
        return self.exact

    def continuous(self) -> LeafAction:
        """The same action made continuous in g where it is not, for derivatives."""
        return self

    def more_accurate(self) -> LeafAction | None:
        """The same action with a better interpolation, as a reference; None if there is none."""
        return None


@final
class Wrapped(LeafAction):
    """An action of `equitangents.actions`, on arrays of either layout."""

    def __init__(self, action: Action, layout: Layout | None):
        self.action, self.layout = action, layout
        self.name, self.exact = action.name, action.exact

    def check(self, name: str, x: np.ndarray) -> None:
        """Let the action look at one signal."""
        try:
            self.action(self.action.group.identity, to_last(self._two_axes(x[:1]), self.layout))
        except (ShapeError, InvalidTypeError) as error:
            hint = "" if self.layout is None else f" (images are taken as {self.layout}; see layout)"
            hint += "" if self.layout is None else flattened(name, x.shape)
            raise type(error)(f"{name}, shape {x.shape}: {error}{hint}") from None

    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """The action, with channels moved to the end and back."""
        moved = np.asarray(self.action(g, to_last(self._two_axes(x), self.layout)))
        return from_last(moved, self.layout).reshape(x.shape).astype(x.dtype, copy=False)

    def _two_axes(self, x: np.ndarray) -> np.ndarray:
        return x[:, None] if x.ndim == 1 else x


@final
class ImageTurns(LeafAction):
    """Turns by any angle, after a reflection or not, of images; quarter turns move pixels, others read a spline."""

    exact = False
    needs_floats = True

    def __init__(
        self,
        motion: Callable[[Any], tuple[float, bool]],
        layout: Layout,
        order: int = 3,
        mask: str | None = None,
        what: str = "turns of images",
        outside: Literal["zero", "edge"] = "zero",
    ):
        self.motion, self.layout, self.order, self.mask, self.what = motion, layout, order, mask, what
        self.name = f"{what}, splines of order {order}" + ("" if mask is None else f", {mask} mask")
        self._turner = Turner(order, mask, outside)

    def check(self, name: str, x: np.ndarray) -> None:
        """Square images."""
        if x.ndim != 4:
            raise ShapeError(f"{name} has shape {x.shape}; turns of images need (N, H, W, C) or (N, C, H, W)")
        H, W = spatial(x.shape, self.layout)
        if H != W:
            raise ShapeError(
                f"{name} has shape {x.shape}, that is images of {H}×{W} pixels as {self.layout}; turns need square "
                "images (is layout right?)"
            )

    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """ρ(g) x."""
        return next(self.orbit([g], x))

    def orbit(self, elements: Sequence[Any], x: np.ndarray) -> Iterator[np.ndarray]:
        """The spline's coefficients are found once for all elements."""
        last = to_last(x, self.layout)
        for moved in self._turner.orbit([self.motion(g) for g in elements], last):
            yield np.ascontiguousarray(from_last(moved, self.layout)).astype(x.dtype, copy=False)

    def moves_exactly(self, g: Any) -> bool:
        """Quarter turns."""
        return self.mask is None and self.motion(g)[0] % 90 == 0

    def continuous(self) -> LeafAction:
        """Outside the image its border is read on."""
        return ImageTurns(self.motion, self.layout or "channels_last", self.order, self.mask, self.what, "edge")

    def more_accurate(self) -> LeafAction | None:
        """Splines of order 5."""
        return None if self.order == 5 else ImageTurns(self.motion, self.layout or "channels_last", 5, self.mask)


@final
class OnLastAxis(LeafAction):
    """Vectors along the last axis multiplied by M(g); `power` 2: matrices M(g) x M(g)ᵀ along the last two."""

    needs_floats = True

    def __init__(self, matrix: Callable[[Any], np.ndarray], dimension: int, name: str, power: int = 1):
        self.matrix, self.dimension, self.name, self.power = matrix, dimension, name, power

    def check(self, name: str, x: np.ndarray) -> None:
        """The last axes have the right length."""
        if x.ndim < 1 + self.power or x.shape[-self.power :] != (self.dimension,) * self.power:
            axes = " and ".join(["the last axis"] if self.power == 1 else ["the last two axes"])
            raise ShapeError(f"{name} has shape {x.shape}; {self.name} need {self.dimension} entries along {axes}")

    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """M(g) x."""
        M = self.matrix(g).astype(x.dtype if x.dtype.kind == "f" else np.float64)
        y = x @ M.T
        return y if self.power == 1 else M @ y


@final
class PermuteAxes(LeafAction):
    """Positions i of the axes `axes` go to p[i]: points and node features (axis 1), pairs (axes 1 and 2)."""

    def __init__(self, n: int, axes: tuple[int, ...], name: str, permutation: Callable[[Any], np.ndarray]):
        self.n, self.axes, self.name, self.permutation = n, axes, name, permutation

    def check(self, name: str, x: np.ndarray) -> None:
        """The axes have n entries."""
        if x.ndim <= max(self.axes) or any(x.shape[a] != self.n for a in self.axes):
            raise ShapeError(f"{name} has shape {x.shape}; expected {self.n} entries along axes {self.axes}")

    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """(ρ(p) x)[p[i]] = x[i]."""
        inverse = np.argsort(self.permutation(g))
        for axis in self.axes:
            x = np.take(x, inverse, axis=axis)
        return x


@final
class RelabelIndices(LeafAction):
    """Arrays of node numbers, e.g. edges (N, E, 2): number i becomes p[i]; negative numbers, the padding, stay."""

    def __init__(self, n: int, permutation: Callable[[Any], np.ndarray]):
        self.n, self.permutation, self.name = n, permutation, f"relabelling of {n} nodes"

    def check(self, name: str, x: np.ndarray) -> None:
        """Integers below n."""
        if x.dtype.kind not in "iu":
            raise InvalidTypeError(f"{name} has dtype {x.dtype}; edges are pairs of node numbers")
        if x.size and x.max() >= self.n:
            raise ShapeError(f"{name} names node {int(x.max())}; there are {self.n} nodes, numbered from 0")

    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """p[x]."""
        return np.where(x >= 0, self.permutation(g)[x], x).astype(x.dtype)


@final
class Custom(LeafAction):
    """Any map x ↦ function(g, x) as what a named group does to one array, for `inputs=` or `output_action` of an audit.

    g is an angle in degrees (SO2), a 3×3 matrix (SO3, O3), a permutation (S_n), or a number of a finite group. NumPy
    in, NumPy out. Whether it respects products is checked on the first inputs; `exact=False` allows 20 % for
    resampling.

    >>> import equitangents as et
    >>> tensors = et.audit.Custom(lambda R, x: R @ x @ R.T, name="tensors")
    >>> x = np.random.default_rng(0).normal(size=(10, 3, 3))
    >>> et.audit(lambda x: np.trace(x, axis1=1, axis2=2), "SO3", x, inputs=tensors, off_data=False).verdict
    'equivariant'
    """

    def __init__(self, function: Callable[[Any, np.ndarray], Any], *, exact: bool = True, name: str = "custom action"):
        self.function, self.exact, self.name = function, exact, name

    def check(self, name: str, x: np.ndarray) -> None:
        """Any array will do."""

    def act(self, g: Any, x: np.ndarray) -> np.ndarray:
        """function(g, x)."""
        y = np.asarray(self.function(g, x))
        if y.shape != x.shape:
            raise ShapeError(f"{self.name} turns shape {x.shape} into {y.shape}; it must keep the shape")
        return y


def to_last(x: np.ndarray, layout: Layout | None) -> np.ndarray:
    """Channels moved from axis 1 to the end if that is where they are."""
    return np.moveaxis(x, 1, -1) if layout == "channels_first" else x


def from_last(x: np.ndarray, layout: Layout | None) -> np.ndarray:
    """The reverse of `to_last`."""
    return np.moveaxis(x, -1, 1) if layout == "channels_first" else x


def spatial(shape: tuple[int, ...], layout: Layout | None) -> tuple[int, ...]:
    """Numbers of positions of a batch of images."""
    return shape[2:] if layout == "channels_first" else shape[1:-1]
