"""Base of layers: immutable specifications that can be initialised, applied, and lowered to a field program.

A `Signal` describes what passes between layers: positions, channels and their distribution. A `Structure` accompanies
the signals of a finite network: masks, graphs, and the key of dropout.
"""

from __future__ import annotations

import abc
import inspect
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.groups import Group
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.operations import Affine, Dual, DualActivation, Flattening, RatedAffine
from equitangents.kernels.program import GroupMoves, Op
from equitangents.kernels.rotations import Sphere
from equitangents.precision import standard_normal
from equitangents.steerable import Features
from equitangents.structured import SMALLER
from equitangents.validation import check_choice, check_number, check_whole


class _Positions:
    """Base of position sets; by default no grid, with equal weights."""

    shape: tuple[int, ...]
    axes: ClassVar[int | None] = None
    """The number of axes of a grid."""
    weights: ClassVar[np.ndarray | None] = None
    """Quadrature weight of each position, (count,), summing to 1; None where all count alike."""

    @property
    def count(self) -> int:
        """The number of positions."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Grid(_Positions):
    """A grid of positions. The shape () is a plain vector of channels; a point set is a one-dimensional grid."""

    shape: tuple[int, ...]

    @property
    def axes(self) -> int:  # type: ignore[override]
        return len(self.shape)

    def __str__(self) -> str:
        return f"a grid of shape {self.shape}" if self.shape else "a plain vector"


@dataclass(frozen=True)
class OnGroup(_Positions):
    """One position for each element of a finite group, or for each sample of SO(3) or O(3)."""

    group: Group | RotationGroup

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.group.order,)

    @property
    def rotations(self) -> RotationGroup | None:
        """The group if it is sampled; None if it is finite."""
        return self.group if isinstance(self.group, RotationGroup) else None

    @property
    def weights(self) -> np.ndarray | None:  # type: ignore[override]
        return None if self.rotations is None else self.rotations.weights

    def __str__(self) -> str:
        return f"the group {self.group.name}"


@dataclass(frozen=True)
class Cosets(_Positions):
    """Positions that are cosets of a subgroup: only pooling, flattening and dense layers may follow."""

    cosets: int

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.cosets,)

    def __str__(self) -> str:
        return f"{self.cosets} cosets"


@dataclass(frozen=True)
class Steered(_Positions):
    """Steerable features at `points`, with coordinates as leading channels; points None: global features.

    `deterministic`: they are the input's own, as many copies as there are; after weights copies are infinitely many.
    `grid`: that of the pixels that the points are, if they are.
    """

    features: Features
    points: int | None = None
    deterministic: bool = True
    grid: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return () if self.points is None else (self.points,)

    @property
    def coordinates(self) -> int:
        """Number of coordinate channels: 2 or 3 at points, 0 for global features."""
        return 0 if self.points is None else self.features.space

    def __str__(self) -> str:
        at = "a whole input" if self.points is None else f"{self.points} points"
        return f"{at} with features {self.features} of {self.features.group}"


Positions = Grid | OnGroup | Cosets | Steered


@dataclass(frozen=True)
class Signal:
    """Fields of `channels` features over `positions`.

    `gaussian`: at infinite width each channel is a Gaussian process, which nonlinearities require.
    `deterministic`: the signal is a function of the input, without random weights.
    `uneven`: channels differ in distribution and may have different means.
    """

    several: ClassVar[Literal[False]] = False  # one, and no branches side by side

    positions: Positions
    channels: int
    gaussian: bool = False
    deterministic: bool = False
    uneven: bool = False

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of one example, channels last."""
        return (*self.positions.shape, self.channels)

    @property
    def axes(self) -> int | None:
        """The number of axes of its grid; None without a grid."""
        return self.positions.axes


Signals = Any
"""A `Signal`, or several side by side (`branches.Branches`): what layers that join read, and `Parallel` gives."""


@dataclass(frozen=True)
class Structure:
    """mask (N, *positions) of the signal or None, graphs (N, P, P) or None, and a key or None.

    The mask of vectors, (N,), marks inputs with an existing position. `masks` is the convention for windows with
    missing positions (`kernels.structured`).
    """

    mask: Tree = None
    graphs: Tree = None
    key: jax.Array | None = None
    masks: str = SMALLER

    def within(self, i: int) -> Structure:
        """The structure for part i, with its own key."""
        return self if self.key is None else replace(self, key=jax.random.fold_in(self.key, i))

    def after(self, y: jax.Array, mask: ArrayLike | None) -> tuple[jax.Array, Structure]:
        """A layer's output, zero at missing positions, and the structure after it."""
        if mask is None:
            return y, self if self.mask is None else replace(self, mask=None)
        return jnp.where(mask[..., None], y, 0), replace(self, mask=mask)


def plain(value: Any) -> Any:
    """A Python number for a NumPy scalar or 0-d array; also inside tuples and lists."""
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(map(plain, value))
    single = isinstance(value, np.generic | np.ndarray | jax.Array) and not np.ndim(value)
    return value.item() if single and not isinstance(value, jax.core.Tracer) else value


class _OfPlainNumbers(abc.ABCMeta):
    """Metaclass that converts 0-d arrays in constructors to numbers, by which layers are compared, hashed and saved."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's signature, which `__call__` would hide."""
        found = inspect.signature(cls.__init__)  # type: ignore[misc]
        return found.replace(parameters=list(found.parameters.values())[1:])

    if not TYPE_CHECKING:  # which reads the constructors

        def __call__(cls, *args: object, **keywords: object) -> object:
            return super().__call__(*map(plain, args), **{name: plain(value) for name, value in keywords.items()})


class Layer(metaclass=_OfPlainNumbers):
    """A layer: `init` makes parameters, `apply` maps signals, `lower` returns its operations on kernels."""

    has_weights: ClassVar[bool] = True
    """Whether it, or a layer inside it, has parameters."""
    draws_noise: ClassVar[bool] = False
    """Whether each input meets noise of its own, so that it is not with itself as with an equal one."""
    joins: ClassVar[bool] = False
    """Whether it reads several signals side by side, as `Sum` does."""
    is_last: ClassVar[bool] = False
    """Whether no layer may follow it, as after `Readout`."""
    ends_on_points: ClassVar[bool] = False
    """Whether a network that ends with it has its outputs on points, and a kernel field of them."""
    steers: ClassVar[bool] = False
    """Whether it works on steerable features: features that transform by irreps of rotations."""
    follows_moves: ClassVar[bool | None] = None
    """Whether a function without weights follows moves of the positions before it; None of linear maps."""
    lifts_to: ClassVar[Group | RotationGroup | None] = None
    """The group on which the layer's output lives, for a layer that lifts; None for all others."""
    inner: ClassVar[tuple[tuple[Layer, ...], ...]] = ()
    """The layers of each branch inside it, for a layer that holds others."""
    samples_rotations: ClassVar[bool] = False
    """Whether kernels sample rotations as finely as the inputs of each call ask for."""
    no_ntk: ClassVar[str | None] = None
    """Why a network with this layer has no neural tangent kernel, or None if it has."""

    @abc.abstractmethod
    def signal(self, signal: Signal) -> Signal:
        """Output signal for the input `signal`; raises NetworkError if the input does not fit."""

    @abc.abstractmethod
    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """Random parameters, a pytree."""

    @abc.abstractmethod
    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The layer's output for x, (N, *positions, channels); `signal` describes x."""

    @abc.abstractmethod
    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """Operations on kernels (`Op`, or `RotationOp` on rotations)."""

    def lower_masked(self, signal: Signal) -> tuple[Any, ...]:
        """Operations for inputs with missing positions, whose windows are those of the remaining smaller inputs."""
        return self.lower(signal)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """(output, structure after the layer) for a signal with a `Structure`: masks, graphs, a key for dropout.

        By default the layer acts as without it and keeps missing positions at zero.
        """
        y, mask = self.apply(params, x, signal), structure.mask
        if mask is None:
            return y, structure
        positions = self.signal(signal).positions
        if positions.shape == () and not isinstance(positions, Steered):
            mask = mask.reshape((len(mask), -1)).any(axis=1)
        elif positions.shape != signal.positions.shape or isinstance(positions, OnGroup):
            raise NetworkError("layers", self, "layers that take masks", verb="hold")
        return structure.after(y, mask)

    def group_moves(self, signal: Signal) -> GroupMoves | Sphere | None:
        """Moves of positions by group elements, for a layer that lifts to a group; else None."""
        return None

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """Operations on the grid of `group`, if they are the same at every rotation and reflection; else None.

        A network whose layers all fold takes the shortcut of `nn.sequential`. By default, operations fold that act at
        each position separately, or average over all positions.
        """
        ops = self.lower(signal)
        return ops if all(isinstance(op, Affine | Dual | Flattening) for op in ops) else None


def every(layers: Iterable[Layer]) -> Iterator[Layer]:
    """All layers, each followed by the layers inside it, branch by branch."""
    for layer in layers:
        yield layer
        for branch in layer.inner:
            yield from every(branch)


class ByRun(Layer):
    """A layer that defines `run`; `apply` is `run` without masks, graphs and keys."""

    @abc.abstractmethod
    def run(self, params: Params, x: Tree, signal: Tree, structure: Tree) -> Tree:
        """(output, structure after the layer) for a signal with a `Structure`: masks, graphs, a key for dropout."""

    def apply(self, params: Params, x: Tree, signal: Tree) -> Tree:
        """The output of `run` with no structure."""
        return self.run(params, x, signal, Structure())[0]


class ParameterFree(Layer):
    """A layer without parameters."""

    has_weights: ClassVar[bool] = False

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """An empty tuple: the layer has no parameters."""
        return ()


class Nonlinearity(ParameterFree):
    """An elementwise function φ: `function` on arrays, and `dual`, its activation kernel."""

    follows_moves: ClassVar[bool | None] = True

    @property
    @abc.abstractmethod
    def dual(self) -> DualActivation:
        """Activation kernel of φ on Gaussian fields."""

    @property
    def no_ntk(self) -> str | None:  # type: ignore[override]
        """Why there is no tangent kernel, for functions with a jump."""
        return traits_of(self.dual).no_ntk

    @abc.abstractmethod
    def function(self, x: jax.Array, /) -> jax.Array:
        """The nonlinearity φ on an array, entry by entry."""

    def signal(self, signal: Signal) -> Signal:
        """A field on the input's positions, not Gaussian."""
        if not (signal.gaussian or signal.deterministic):
            raise NetworkError(
                "a nonlinearity needs a Gaussian field before it, that is a linear layer (Dense, Conv, ...); after "
                "another nonlinearity compose the two with Elementwise, and put it before Flatten, not after"
            )
        return replace(signal, gaussian=False)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The nonlinearity φ of every entry of x."""
        return self.function(x)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """One operation: the nonlinearity's activation kernel."""
        return (Dual(self.dual),)


PARAMETRISATIONS = ("ntk", "standard")


@dataclass(frozen=True)
class Weights:
    """Weights and bias of a linear map: in NTK parametrisation y = W_std/√fan_in · W x + b_std · b, all N(0, 1).

    In the standard one y = W x/√s + b with W ~ N(0, s W_std²/fan_in), b ~ N(0, b_std²) and s the `width_scale`
    (default 1). `bias` None: a bias if b_std > 0. A bias with b_std = 0 starts at 0 and is trained.
    """

    W_std: float
    b_std: float
    parametrisation: str = "ntk"
    bias: bool | None = None
    width_scale: float = 1.0

    @property
    def has_bias(self) -> bool:
        """Whether the bias has an effect: in NTK parametrisation it is multiplied by b_std."""
        if self.parametrisation == "ntk" or self.bias is None:
            return self.b_std > 0
        return self.bias

    def affine(self, fan_in: int) -> Affine:
        """The operation on kernels; in standard parametrisation Θ' = fan_in/s K + 1 (with a bias) + W_std² Θ."""
        if self.parametrisation == "ntk":
            return Affine(self.W_std**2, self.b_std**2)
        return RatedAffine(self.W_std**2, self.b_std**2, fan_in / self.width_scale, float(self.has_bias))

    def init(
        self, key: jax.Array, shape: tuple[int, ...], bias_shape: tuple[int, ...], dtype: DType
    ) -> dict[str, jax.Array]:
        """Standard normal weights, and a bias if it has any effect."""
        w_key, b_key = jax.random.split(key)
        params = {"w": standard_normal(w_key, shape, dtype)}
        if self.has_bias:
            params["b"] = standard_normal(b_key, bias_shape, dtype)
        if self.parametrisation == "standard":
            scales = {"w": self.W_std * math.sqrt(self.width_scale / shape[-2]), "b": self.b_std}
            params = {name: value * scales[name] for name, value in params.items()}
        return params

    def scaled(self, params: dict[str, jax.Array], fan_in: int) -> jax.Array:
        """The scaled weights, W_std/√fan_in · W."""
        if self.parametrisation == "standard":
            return params["w"] if self.width_scale == 1 else params["w"] / math.sqrt(self.width_scale)
        return params["w"] * (self.W_std / math.sqrt(fan_in))

    def multiply(self, params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        """Inputs times weights plus bias, W_std/√n · x W + b_std · b, along the last axis; weights are (n, outputs).

        Positions are merged with the batch: XLA's CPU backend takes twice as long for products of higher rank.
        """
        w = self.scaled(params, x.shape[-1])
        return self.add_bias(params, (x.reshape((-1, x.shape[-1])) @ w).reshape((*x.shape[:-1], -1)))

    def add_bias(self, params: dict[str, jax.Array], y: jax.Array) -> jax.Array:
        """Products with the weights, plus the bias b_std · b."""
        if "b" not in params:
            return y
        b = params["b"] if self.parametrisation == "standard" else self.b_std * params["b"]
        return y + b.reshape((1,) * (y.ndim - b.ndim) + b.shape)  # the same rank, as some settings of JAX ask for


class LinearLayer(Layer):
    """A layer with weights for each filter entry and input channel, and one bias per output channel; see `Weights`."""

    channels: int
    W_std: float
    b_std: float
    parametrisation: str = "ntk"
    bias: bool | None = None
    width_scale: float = 1.0

    def __repr__(self) -> str:
        """The constructor's call, with hidden fields that differ from their defaults."""
        shown = [f for f in fields(self) if f.repr or getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def __post_init__(self) -> None:
        check_whole("channels", self.channels, 1)
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)
        check_choice("parametrisation", self.parametrisation, PARAMETRISATIONS)
        if self.bias not in (None, True, False):
            raise InvalidTypeError("bias", self.bias, "True, False, or None for one where b_std > 0")
        check_number("width_scale", self.width_scale, "a finite number above 0", lambda v: v > 0)

    @property
    def scales(self) -> Weights:
        """The scales of weights and bias."""
        return Weights(self.W_std, self.b_std, self.parametrisation, self.bias, self.width_scale)

    def filter_shape(self, signal: Signal) -> tuple[int, ...]:
        """Shape of a filter's entries, along one or more axes; () without a window."""
        return ()

    def window_mean(self, signal: Signal) -> tuple[Any, ...]:
        """Operations that average kernels over the window."""
        return ()

    def fan_in(self, signal: Signal) -> int:
        """The number n of inputs of one output, per filter entry."""
        return signal.channels

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (*entries, n, channels), b (channels,)."""
        shape = (*self.filter_shape(signal), self.fan_in(signal), self.channels)
        return self.scales.init(key, shape, (self.channels,), dtype)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """The mean over the window, then weights and bias."""
        return (*self.window_mean(signal), self.scales.affine(self.fan_in(signal)))


def check_scale(name: str, value: object) -> None:
    """Raise unless `value` is a standard deviation whose square is finite."""
    check_number(name, value, "a number from 0 to 1e150", lambda v: 0 <= v <= 1e150)
