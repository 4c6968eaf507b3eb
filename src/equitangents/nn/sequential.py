"""Networks: layers one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels.cost import KernelCost, kernel_cost
from equitangents.kernels.invariance import ops_are_invariant, outputs_move
from equitangents.kernels.projected import PositionMoves
from equitangents.kernels.result import KernelField, Kernels, NngpKernels, Part, part_of
from equitangents.kernels.rotations import sample as hardest
from equitangents.kernels.runs.programs import compute
from equitangents.kernels.steerable import Points
from equitangents.nn.layer import Grid, Layer, Signal, Structure
from equitangents.nn.lowering import (
    AnyProgram,
    chain,
    check_entries,
    draw_noise,
    init_layers,
    lower,
    lower_field,
    lowered,
    run_layers,
    why_no_ntk,
)
from equitangents.nn.steerable.linear import equivariant_dimension
from equitangents.structured import SMALLER, Graphs, Inputs, Masked, checked, is_structured, without_empty_masks
from equitangents.validation import check_array, check_key, check_shape

PositionPairs = Literal["all", "same"]
"""All pairs of positions, or each with itself."""


MOST_LAYERS = 10_000
"""Layers of a network at most: lowering, and every message that names it, take time and memory for each."""


class Sequential:
    """Layers one after another; immutable, hashable, with three meanings.

    ```python
    net = Sequential(Dense(512, W_std=1.5, b_std=0.1), Relu(), Dense(1))
    params = net.init(jax.random.key(0), (8,))   # finite width: parameters,
    y = net.apply(params, x)                      # a function (N, 8) -> (N, 1),
    k = net.kernel(x)                             # infinite width: k.nngp and k.ntk, (N, N)
    ```
    Inputs are channel-last: `(N, *positions, channels)`, or `(N, channels)` for plain vectors.
    """

    def __init__(self, *layers: Layer) -> None:
        for i, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise InvalidTypeError("layers", layer, "a layer of equitangents.nn", at=i)
        if not layers:
            raise NetworkError("a network needs at least one layer")
        if len(layers) > MOST_LAYERS:
            raise NetworkError("layers", len(layers), range(MOST_LAYERS + 1), verb="number")
        self._layers = tuple(layers)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, first to last."""
        return self._layers

    @property
    def equivariant_outputs(self) -> int | None:
        """d, if the outputs are equivariant (a `Readout`, steerable features) and kernels are (N1, N2, d, d).

        None for other networks.
        """
        own = self._layers[-1].equivariant_outputs
        return equivariant_dimension(self._layers) if own is None else own

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self._layers))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequential) and self._layers == other._layers

    def __hash__(self) -> int:
        return hash(self._layers)

    def __deepcopy__(self, memo: dict[int, Any]) -> Sequential:
        return self  # immutable, so scikit-learn's clone may share it

    def signals(self, input_shape: tuple[int, ...]) -> tuple[Signal, ...]:
        """Input signals of each layer, and the output signal; NetworkError names a layer that does not fit."""
        return _signals(self._layers, check_shape("input_shape", input_shape))

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of one output for inputs of shape (*positions, channels)."""
        return self.signals(input_shape)[-1].array_shape

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: np.dtype | type | str = "float32") -> Params:
        """Parameters of a finite network for inputs of shape (*positions, channels): a tuple with one entry a layer."""
        signals = self.signals(input_shape)
        check_key(key)
        with precision.scope(dtype):
            return init_layers(self._layers, key, signals, jnp.dtype(dtype))

    def apply(self, params: Params, x: Inputs, *, key: jax.Array | None = None) -> jax.Array:
        """Outputs (N, outputs) of the finite network for x, (N, *positions, channels), in the precision of `params`.

        x may be `Masked` or `Graphs`. A network with dropout in training takes a `key`, from which it draws.
        """
        check_entries("params", params, self._layers)
        if key is not None:
            check_key(key)
        if is_structured(x):
            x = checked("x", x)
        elif np.ndim(x) < 2:
            raise ShapeError("x", np.shape(x), "(N, channels) or (N, *positions, channels)")
        leaves, signals = jax.tree.leaves(params), self.signals(np.shape(getattr(x, "x", x))[1:])
        dtype = leaves[0].dtype if leaves else precision.working_dtype(x)
        with precision.scope(dtype), _naming_misfits(self._layers, params, signals):
            return run_layers(self._layers, params, *_values(x, dtype, key), signals=signals)[0]

    def lower(self, input_shape: tuple[int, ...]) -> tuple[int, AnyProgram]:
        """(how many leading layers are functions of the input alone, the field program of the rest)."""
        found = _lower(self._layers, check_shape("input_shape", input_shape))
        return found.given, found.program

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether the kernel is known to be invariant, k(ρ(g)x, ρ(g)x') = k(x, x') for all inputs of this shape.

        By what the layers do to positions, not by values; False where they do not tell, too.
        """
        return _is_invariant(self._layers, action, check_shape("input_shape", input_shape))

    def field_invariant_under(self, action: Action, input_shape: tuple[int, ...], moves: np.ndarray) -> bool:
        """Whether the kernel field is known to be invariant when inputs and output positions are moved together.

        moves: where each generator of the group takes the P output positions, (generators, P).
        """
        return self._outputs_move(action, input_shape, moves, alone=False)

    def field_equivariant_under(self, action: Action, input_shape: tuple[int, ...], moves: np.ndarray) -> bool:
        """As `field_invariant_under`, if one of the two inputs moves: every finite network is equivariant."""
        return self._outputs_move(action, input_shape, moves, alone=True)

    def _outputs_move(self, action: Action, input_shape: tuple[int, ...], moves: np.ndarray, *, alone: bool) -> bool:
        shape = check_shape("input_shape", input_shape)
        try:
            ops = lowered(self._layers, self.signals(shape), masked=False)
        except NetworkError:
            return False
        return outputs_move(ops, action, shape, moves, alone=alone)

    def outputs_equivariant_under(self, action: Action, input_shape: tuple[int, ...], matrices: np.ndarray) -> bool:
        """Whether K(ρ(g)x, x') = M_g K(x, x') is known for equivariant outputs, all inputs and each generator g.

        matrices: (generators, d, d). Known of a `Readout` after a `Lift` of the group that moves the inputs.
        """
        shape = check_shape("input_shape", input_shape)
        try:
            given, program = self.lower(shape)
        except NetworkError:
            return False
        moves = getattr(program.space, "moves", None)
        return not given and isinstance(moves, PositionMoves) and moves.turn(action, shape, matrices)

    @property
    def draws_noise(self) -> bool:
        """Whether inputs draw independent noise (dropout), so that x with itself differs from x with an equal input."""
        return draw_noise(self._layers)

    def kernel(self, x1: Inputs, x2: Inputs | None = None, engine: str | None = None) -> Kernels:
        """NNGP and NTK of the infinitely wide network between x1, (N1, *positions, C), and x2 (None: x1 at half cost).

        float32 inputs give float32 kernels, float64 ones float64; NumPy gives NumPy and JAX gives JAX arrays; works
        under jit and is differentiable. Kernels are of one output unit. A network with a jump (Sign, Heaviside) has an
        NNGP alone: asking for its `ntk` raises NetworkError.
        Raises ShapeError, NotFiniteError, NetworkError, and MemoryLimitError where the result cannot fit in memory.
        """
        x1, x2 = self._checked_pair(x1, x2)
        lowered = self._lowered(x1)
        if lowered.given:
            x1, x2 = self.after_given(lowered.given, x1), None if x2 is None else self.after_given(lowered.given, x2)
        return lowered.existing(compute(lowered.program, x1, x2, engine))

    @property
    def samples_rotations(self) -> bool:
        """Whether kernels may sample rotations as finely as the inputs of each call ask for."""
        return any(layer.samples_rotations for layer in self._layers)

    def sampled_for(self, x: Inputs) -> Sequential:
        """This network with rotations sampled as finely as inputs x ask for; itself, where none are sampled.

        The kernel of two inputs then does not depend on the other inputs of a call. Without it each call of `kernel`
        takes the resolution that its own inputs ask for (`SphereLift.tolerance`).
        """
        if is_structured(x) or not self.samples_rotations:
            return self
        given, program = self._lowered(x)[:2]
        after = np.asarray(self.after_given(given, x))
        resolution = compute(program, hardest(after, after)).resolution
        if resolution is None:
            return self
        return Sequential(
            *(replace(layer, resolution=resolution) if layer.samples_rotations else layer for layer in self._layers)  # type: ignore[type-var]
        )

    def kernel_diagonal(self, x: Inputs, engine: str | None = None) -> Kernels:
        """NNGP and NTK of every input with itself, each (N,): the diagonal of `kernel(x)` at the cost of N pairs."""
        (x,) = without_empty_masks(_check_inputs("x", x))
        lowered = self._lowered(x)
        return lowered.existing(compute(lowered.program, self.after_given(lowered.given, x), None, engine, own=True))

    def _checked_pair(self, x1: Tree, x2: Tree) -> tuple[Tree, Tree]:
        """Inputs of two sets that fit each other."""
        x1 = _check_inputs("x1", x1)
        if x2 is not None:
            x2 = _check_inputs("x2", x2)
            if x2.shape[1:] != x1.shape[1:]:
                raise ShapeError("x2", x2.shape, ("N", *x1.shape[1:]), "give inputs of the shape of x1")
            if is_structured(x1) != is_structured(x2):
                raise NetworkError("one of x1 and x2 has masks or graphs, the other none; give both")
            if getattr(x1, "convention", None) != getattr(x2, "convention", None):
                raise NetworkError("x2", x2.convention, x1.convention, verb="has masks of convention")
        if x2 is None:
            return (*without_empty_masks(x1), None)
        return without_empty_masks(x1, x2)

    def kernel_field(
        self, x1: ArrayLike, x2: ArrayLike | None = None, positions: PositionPairs = "all", engine: str | None = None
    ) -> KernelField:
        """NNGP and NTK between the P output positions of x1 and those of x2 (None: x1 at half cost), (N1, P, N2, P).

        For networks that end on positions, such as a Conv or a GroupConv without a pool after it. Positions are
        numbered row by row. `positions`: "all"; "same", the kernels at p = p', (N1, N2, P). Otherwise as `kernel`:
        precision, arrays, derivatives and errors.

        >>> import numpy as np, equitangents as et
        >>> net = et.nn.Sequential(et.nn.Conv(8, (3, 3)), et.nn.Relu(), et.nn.Conv(1, (3, 3)))
        >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 1))
        >>> net.kernel_field(x[:2], x).ntk.shape, net.kernel_field(x, positions="same").ntk.shape
        ((2, 16, 5, 16), (5, 5, 16))
        """
        x1, x2 = self._checked_pair(x1, x2)
        given, program, part, alone = self._field(x1, positions)
        if alone:
            return self._of_one_position(self.kernel(x1, x2, engine), x1, part)
        after = self.after_given(given, x1), None if x2 is None else self.after_given(given, x2)
        return self._named(compute(program, *after, engine, part), x1)

    def kernel_field_diagonal(
        self, x: ArrayLike, positions: PositionPairs = "all", engine: str | None = None
    ) -> KernelField:
        """The kernel field of every input with itself: (N, P, P), or (N, P) with positions="same".

        What `kernel_field(x)` has for i = j, at the cost of N pairs: the covariances within each output, and with
        positions="same" its variances.
        """
        x = _check_inputs("x", x)
        given, program, part, alone = self._field(x, positions)
        if alone:
            return self._of_one_position(self.kernel_diagonal(x, engine), x, part)
        return self._named(compute(program, self.after_given(given, x), None, engine, part, own=True), x)

    def _field(self, x: Tree, positions: PositionPairs) -> tuple[int, AnyProgram, Part, bool]:
        """(layers that are functions of the input, the program of the rest, pairs of positions, whether it is one)."""
        signals = self.signals(x.shape[1:])
        part = part_of(positions, signals[-1].positions.count)
        given, program = lower_field(self._layers, signals, x.convention if is_structured(x) else None)
        return given, program, part, part.count == 1 and not isinstance(program.space, Points)

    def _of_one_position(self, kernels: Kernels, x: Tree, part: Part) -> Tree:
        """Kernels of a network with one output position as a field of the shape that was asked for."""
        tail = part.tail

        def field(values: ArrayLike) -> ArrayLike:
            spread = np.broadcast_to if isinstance(values, np.ndarray) else jnp.broadcast_to
            one = spread(values.reshape(values.shape + (1,) * len(tail)), values.shape + tail)
            return part.public(one) if values.ndim == 2 else one

        nngp = field(kernels.nngp)
        ntk = field(kernels.ntk) if why_no_ntk(self._layers) is None else nngp
        found = KernelField(
            nngp, ntk, positions=part.kind, engine=kernels.engine, form=kernels.form, notes=kernels.notes
        )
        return self._named(found, x)

    def _named(self, found: KernelField, x: Tree) -> Tree:
        """The field with the shape of its grid; only the NNGP if there is no NTK."""
        found = replace(found, grid=self.signals(x.shape[1:])[-1].positions.shape)
        reason = why_no_ntk(self._layers)
        return found if reason is None else NngpKernels.of(found, reason)

    def lowered(self, x: Inputs) -> tuple[Tree, AnyProgram]:
        """(x, (N, *positions, channels), after the leading layers without weights; the field program of the rest)."""
        found = self._lowered(x)
        return self.after_given(found.given, x), found.program

    def _lowered(self, x: Inputs) -> _Lowered:
        """What it is on inputs like x."""
        return _lower(self._layers, x.shape[1:], getattr(x, "convention", None))

    def kernel_cost(
        self,
        input_shape: tuple[int, ...],
        n1: int,
        n2: int | None = None,
        dtype: DTypeLike = "float32",
        engine: str | None = None,
        *,
        masked: bool = False,
    ) -> KernelCost:
        """Cost of `kernel` for n1 and n2 inputs of `input_shape` = (*positions, channels), before it runs.

        n2 None: n1 inputs with themselves. `masked`: inputs with missing positions. Work is counted, memory is as
        planned, and the time on this machine comes from one block of random inputs; `print(net.kernel_cost((32, 32, 3),
        1000))` shows all. For a network that samples rotations, on signals (B², C), the resolution is that of
        random signals of unit variance.
        """
        found = _lower(self._layers, check_shape("input_shape", input_shape), SMALLER if masked else None)
        return kernel_cost(found.program, self.signals(input_shape)[found.given].channels, n1, n2, dtype, engine)

    def after_given(self, count: int, x: Inputs) -> Tree:
        """The first layers, which have no parameters, applied to the input itself."""
        if not count:
            return x
        dtype, layers, signals = precision.working_dtype(x), self._layers[:count], self.signals(x.shape[1:])
        params, graphs = ((),) * count, getattr(x, "adjacency", None)
        if isinstance(x, np.ndarray) and all(layer.takes_numpy for layer in layers):
            return run_layers(layers, params, x.astype(dtype, copy=False), Structure(), signals)[0]
        with precision.scope(dtype):
            y, after = run_layers(layers, params, *_values(x, dtype), signals=signals)
            if graphs is not None:
                return Graphs(y, graphs, after.mask, x.convention)  # type: ignore[union-attr]
            if after.mask is not None and y.ndim > 2:
                return Masked(y, after.mask, after.masks)
            return np.asarray(y) if isinstance(getattr(x, "x", x), np.ndarray) else y


@contextmanager
def _naming_misfits(layers: tuple[Layer, ...], params: Params, signals: tuple[Signal, ...]) -> Iterator[None]:
    """ShapeError, where applying layers fails, for the first whose parameters are of other shapes than `init` gives.

    They are compared after the failure alone, since users' own layers may change theirs.
    """
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError):
        made = jax.eval_shape(lambda key: init_layers(layers, key, signals, jnp.dtype("float32")), jax.random.key(0))
        for i, both in enumerate(zip(params, made, strict=True)):
            held, needed = (jax.tree.map(np.shape, p) for p in both)
            if held != needed:
                raise ShapeError(
                    "params",
                    held,
                    needed,
                    "give inputs of the shape that init was given, or init for these",
                    verb="has shapes",
                    at=i,
                ) from None
        raise


def _values(x: Inputs, dtype: DType, key: jax.Array | None = None) -> tuple[jax.Array, Structure]:
    """Arrays (N, *positions, C) in a precision, and what goes beside them; vectors have no positions to miss."""
    values, graphs = jnp.asarray(getattr(x, "x", x), dtype), getattr(x, "adjacency", None)
    graphs = None if graphs is None else jnp.asarray(graphs, dtype)
    mask = getattr(x, "mask", None) if values.ndim > 2 else None
    return values, Structure(mask, graphs, key, getattr(x, "convention", SMALLER))


def _check_inputs(name: str, x: Inputs) -> Tree:
    """Arrays (N, *positions, C), or inputs with masks or graphs."""
    return checked(name, x) if is_structured(x) else check_array(name, x, min_rank=2)


@lru_cache(maxsize=512)
def _signals(layers: tuple[Layer, ...], input_shape: tuple[int, ...]) -> tuple[Signal, ...]:
    return chain(layers, Signal(Grid(input_shape[:-1]), input_shape[-1], given=True))


@lru_cache(maxsize=512)
def _is_invariant(layers: tuple[Layer, ...], action: GroupAction, shape: tuple[int, ...]) -> bool:
    try:
        ops = lowered(layers, _signals(layers, shape), masked=False)
    except NetworkError:  # layers that have no operations by themselves
        return False
    return ops_are_invariant(ops, action, shape)


class _Lowered(NamedTuple):
    """A network on inputs of one shape: leading layers without weights, and the program of the rest."""

    given: int
    program: AnyProgram
    no_ntk: str | None  # why there is no tangent kernel

    def existing(self, kernels: Kernels) -> Tree:
        """The kernels that the network has: both, or only the NNGP."""
        return kernels if self.no_ntk is None else NngpKernels.of(kernels, self.no_ntk)


@lru_cache(maxsize=512)
def _lower(layers: tuple[Layer, ...], input_shape: tuple[int, ...], masks: str | None = None) -> _Lowered:
    return _Lowered(*lower(layers, _signals(layers, input_shape), masks), why_no_ntk(layers))
