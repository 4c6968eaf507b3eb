"""Standardised inputs (x − m)/s, by the training set's mean and standard deviation, kept for every prediction.

m and s are computed over samples and positions, channels being the last axis. Networks are trained on standardised
inputs, so m and s must not distinguish channels that a group mixes: the first of these four that commutes with every
element, S(ρ(g) x) = ρ(g) S(x), is used.

each channel                        permutations of positions
all channels together               permutations of channels
each channel, not shifted           transformations that fill with zeros
all channels together, not shifted  any linear action
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike, Network
from equitangents.actions import Action
from equitangents.actions.subset import ActionSubset, Augmentation
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.nn import PointCloud, Sequential
from equitangents.nn.layer import Layer

_NESTED = 4  # how many averages and priors may lie around a network
_HOW = ("each channel", "all channels together", "each channel, not shifted", "all channels together, not shifted")
_ROUNDING = 4  # units in the last place within which a channel counts as constant
_SAME = 1e-6  # relative to the signals' size: what counts as commuting; a wrong shift or scale is off by its own size


@dataclass(frozen=True)
class Standardisation:
    """S(x) = (x − shift) / scale of inputs (…, channels); `how` is the choice, one of the four above.

    >>> import numpy as np
    >>> x = np.array([[[0.0], [4.0]], [[4.0], [0.0]]])
    >>> fitted_standardisation(x)(x).tolist()
    [[[-1.0], [1.0]], [[1.0], [-1.0]]]
    """

    shift: Float[np.ndarray, " channels"]
    scale: Float[np.ndarray, " channels"]
    how: str

    def __call__(self, x: ArrayLike) -> np.ndarray:
        """The standardised inputs, in x's dtype; computed in float64 per entry, so that equal entries stay equal."""
        x = np.asarray(x)
        if x.shape[-1:] != self.scale.shape:
            raise ShapeError("x", x.shape, (..., len(self.scale)), "the channels of the standardisation")
        found = (x.astype(np.float64) - self.shift) / self.scale
        return found.astype(x.dtype if x.dtype.kind == "f" else np.float64)

    @property
    def is_one(self) -> bool:
        """Whether shapes and values are valid for a standardisation."""
        shift, scale = self.shift, self.scale
        finite = shift.ndim == 1 and shift.shape == scale.shape and np.isfinite([shift, scale]).all()
        return bool(finite and min(scale) > 0)


def fitted_standardisation(
    x: ArrayLike, net: Network = None, augmentation: Augmentation | None = None
) -> Standardisation:
    """The standardisation of x (N, …, channels): the first in the list above that commutes with the augmentation.

    Networks that read channels as vectors or tensors get one scale for all channels and no shift. Raises
    InvalidArgumentError if none is valid: for an action that is not linear, a network that reads coordinates (their
    unit is that of the layers' radii), or numbers whose squares overflow.
    """
    x = np.asarray(x)
    rounding = _ROUNDING * float(np.finfo(x.dtype if x.dtype.kind == "f" else np.float64).eps)
    x = x.astype(np.float64)
    input_layer = _input_layer(net)
    if isinstance(input_layer, PointCloud):
        expected = "False (--no-standardise) for a network that begins with PointCloud"
        raise InvalidArgumentError("standardise", True, expected, "its inputs are coordinates; scale features yourself")
    kinds = getattr(getattr(input_layer, "features", None), "irreps", ())
    equivariant = not all(kind.is_trivial for kind in kinds)
    if not isinstance(augmentation, Action | ActionSubset):
        augmentation = None  # what is neither is refused by whoever augments
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused here
        candidates = tuple(_candidates(x, rounding))
    for found in candidates:
        if not found.is_one:
            expected = "numbers whose squares are finite and not 0, to be standardised"
            raise InvalidArgumentError("X", float(np.abs(x).max()), expected, verb="has numbers up to")
        separate = not equivariant or found.how == _HOW[-1]
        if separate and (augmentation is None or _commutes(found, augmentation, x)):
            return found
    remedy = "scale the inputs yourself, and leave standardise out (--no-standardise)"
    raise InvalidArgumentError("standardise", True, "False for an augmentation that is not linear", remedy)


def _candidates(x: np.ndarray, rounding: float) -> Iterator[Standardisation]:
    for how in _HOW:
        axes = tuple(range(x.ndim if how.startswith("all") else x.ndim - 1))
        if how.endswith("not shifted"):
            shift = np.zeros(())
            scale = np.sqrt(np.square(x).mean(axis=axes))
            scale = np.where(scale == 0, 1.0, scale)
        else:
            lowest, highest = x.min(axis=axes), x.max(axis=axes)
            constant = highest - lowest <= rounding * np.maximum(np.abs(lowest), np.abs(highest))
            shift = np.where(constant, lowest, x.mean(axis=axes))
            scale = np.where(constant, 1.0, x.std(axis=axes))
        channels = x.shape[-1:]
        yield Standardisation(np.broadcast_to(shift, channels).copy(), np.broadcast_to(scale, channels).copy(), how)


def _commutes(found: Standardisation, augmentation: Augmentation, x: np.ndarray) -> bool:
    """Whether S(ρ(g) x) = ρ(g) S(x) for all generators, or all elements of a subset.

    True for moves of positions. Checked on two random signals for linear maps, otherwise on the copies of all x by
    all elements; it may then fail for other inputs.
    """
    if isinstance(augmentation, ActionSubset):
        action, elements = augmentation.action, list(augmentation.elements)
    else:
        action = augmentation
        few = action.exact and action.is_linear(x.shape[1:])
        elements = list(action.group.generators if few else range(action.group.order))
    tolerance = _SAME * (1 + np.max(np.abs(found.shift / found.scale)))
    z = np.random.default_rng(0).normal(size=(2, *x.shape[1:]))
    for g in elements:
        moves = action.moves(g, x.shape[1:])
        if moves is not None and getattr(action, "permutes_positions", False):
            continue
        signals = z if moves is not None or action.linear else np.concatenate([z, found(x)])
        moved = np.asarray(action(g, signals), np.float64)
        inputs = signals * found.scale + found.shift  # those that are standardised to the signals
        error = np.max(np.abs(found(np.asarray(action(g, inputs), np.float64)) - moved))
        if not error <= tolerance * np.max(np.abs(signals)):
            return False
    return True


def _input_layer(net: Network) -> Layer | None:
    """The first layer of a network of layers, also inside an average or a prior; None for other networks."""
    inner = net
    for _ in range(_NESTED):
        if isinstance(inner, Sequential):
            return inner.layers[0]
        inner = getattr(inner, "base", getattr(inner, "net", None))
    return None
