"""Networks: layers one after another, and their programs, which engines run.

Roto-translations are folded onto the grid if possible (arXiv 2406.06504, Theorem 5.3). If rotations (and reflections)
map every window to itself, and every window includes all of them, then the field at a pair offset on the group does
not depend on the rotation: at g = (r, t) each layer averages over t + u with u in the box, whatever r. The
group-convolutional kernel is then that of the ordinary convolutional network on the torus, with the second input moved
by all elements of the group: |G| fields of H·W entries instead of |G| fields of |G|. For a group of translations it is
the ordinary network itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.groups import Group
from equitangents.kernels.cost import KernelCost, kernel_cost
from equitangents.kernels.invariance import ops_are_invariant, outputs_move
from equitangents.kernels.program import GroupMoves, Op, Positions, Program, field_program
from equitangents.kernels.program import is_structured as has_structure
from equitangents.kernels.projected import PositionMoves
from equitangents.kernels.result import KernelField, Kernels, NngpKernels, Part, part_of
from equitangents.kernels.rotations import sample as hardest
from equitangents.kernels.runs.programs import compute
from equitangents.kernels.steerable import Points
from equitangents.kernels.structured import StructuredPositions, structured_program
from equitangents.nn.conv import Dense, Flatten
from equitangents.nn.layer import Grid, Layer, Signal, Signals, Steered, Structure, every
from equitangents.nn.readout import Readout
from equitangents.nn.steerable.linear import equivariant_dimension
from equitangents.structured import SMALLER, Graphs, Inputs, Masked, checked, is_structured
from equitangents.validation import check_array, check_key, check_shape

PositionPairs = Literal["all", "same"]
"""All pairs of positions, or each with itself."""

AnyProgram = Program[Any]

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
            raise NetworkError("layers", layers, "at least one layer")
        if len(layers) > MOST_LAYERS:
            raise NetworkError("layers", len(layers), range(MOST_LAYERS + 1), verb="number")
        self._layers = tuple(layers)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, first to last."""
        return self._layers

    @property
    def equivariant_outputs(self) -> int | None:
        """d, if the outputs are equivariant (a `Readout`, steerable features), so that kernels are (N1, N2, d, d).

        None for other networks.
        """
        last = self._layers[-1]
        return last.channels if isinstance(last, Readout) else equivariant_dimension(self._layers)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self._layers))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequential) and self._layers == other._layers

    def __hash__(self) -> int:
        return hash(self._layers)

    def __deepcopy__(self, memo: dict[int, Any]) -> Sequential:
        return self  # immutable, so scikit-learn's clone may share it

    def signals(self, input_shape: tuple[int, ...]) -> tuple[Signal, ...]:
        """The input signal of each layer, and the output signal; NetworkError names a layer that does not fit."""
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

        x may be `Masked` or `Graphs`. A network with dropout in training needs a `key` for its random draws.
        """
        if key is not None:
            check_key(key)
        if is_structured(x):
            x = checked("x", x)
        elif np.ndim(x) < 2:
            raise ShapeError("x", np.shape(x), "(N, channels) or (N, *positions, channels)")
        signals = self.signals(np.shape(getattr(x, "x", x))[1:])
        with naming_misfits(self._layers, params, signals):
            leaves = jax.tree.leaves(params)
            dtype = leaves[0].dtype if leaves else precision.working_dtype(x)
            with precision.scope(dtype):
                return run_layers(self._layers, params, *_values(x, dtype, key), signals=signals)[0]

    def lower(self, input_shape: tuple[int, ...]) -> tuple[int, AnyProgram]:
        """(number of leading layers that are functions of the input, the field program of the other layers)."""
        return _lower(self._layers, check_shape("input_shape", input_shape))[:2]

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether the kernel is known to be invariant, k(ρ(g)x, ρ(g)x') = k(x, x') for all inputs of this shape.

        Decided by how layers act on positions, not by values; False also means unknown.
        """
        return _is_invariant(self._layers, action, check_shape("input_shape", input_shape))

    def field_symmetry(
        self, action: Action, input_shape: tuple[int, ...], moves: np.ndarray
    ) -> Literal["invariant", "equivariant"] | None:
        """Known symmetry of the kernel field if inputs and output positions move together; None: unknown.

        "invariant": if both inputs move; "equivariant": also if one moves, since every finite network is equivariant.
        moves: where each generator of the group takes the P output positions, (generators, P).
        """
        shape = check_shape("input_shape", input_shape)
        try:
            ops = lowered(self._layers, self.signals(shape), masked=False)
        except NetworkError:
            return None
        if not outputs_move(ops, action, shape, moves):
            return None
        return "equivariant" if outputs_move(ops, action, shape, moves, one_sided=True) else "invariant"

    def outputs_equivariant_under(self, action: Action, input_shape: tuple[int, ...], matrices: np.ndarray) -> bool:
        """Whether K(ρ(g)x, x') = M_g K(x, x') is known for equivariant outputs, all inputs and each generator g.

        matrices: (generators, d, d). Known for a `Readout` after a `Lift` by the group that moves the inputs.
        """
        shape = check_shape("input_shape", input_shape)
        try:
            leading, program = self.lower(shape)
        except NetworkError:
            return False
        moves = getattr(program.space, "moves", None)
        return not leading and isinstance(moves, PositionMoves) and moves.matches(action, shape, matrices)

    @property
    def draws_noise(self) -> bool:
        """Whether inputs draw independent noise (dropout), so that x with itself differs from x with an equal input."""
        return any(layer.draws_noise for layer in every(self._layers))

    @property
    def samples_rotations(self) -> bool:
        """Whether kernels may sample rotations at a resolution chosen from the inputs of each call."""
        return any(layer.samples_rotations for layer in self._layers)

    def sampled_for(self, x: Inputs) -> Sequential:
        """This network with rotations sampled at the resolution for inputs x; itself if it samples none.

        The kernel of two inputs then does not depend on the other inputs of a call. Otherwise each call of `kernel`
        chooses the resolution for its own inputs (`SphereLift.tolerance`).
        """
        if is_structured(x) or not self.samples_rotations:
            return self
        after, program = self.lowered(x)
        resolution = compute(program, hardest(np.asarray(after), np.asarray(after))).resolution
        if resolution is None:
            return self
        return Sequential(
            *(replace(layer, resolution=resolution) if layer.samples_rotations else layer for layer in self._layers)  # type: ignore[type-var]
        )

    def kernel(self, x1: Inputs, x2: Inputs | None = None, engine: str | None = None) -> Kernels:
        """NNGP and NTK of the infinitely wide network between x1, (N1, *positions, C), and x2 (None: x1 at half cost).

        float32 inputs give float32 kernels, float64 ones float64; NumPy gives NumPy and JAX gives JAX arrays; works
        under jit and is differentiable. Kernels are of one output unit. A network with a jump (Sign, Heaviside) has
        only an NNGP: reading its `ntk` raises NetworkError.
        Raises ShapeError, NotFiniteError, NetworkError, and MemoryLimitError if the result cannot fit in memory.
        """
        return self._kernels(*_pair(x1, x2), engine)

    def kernel_diagonal(self, x: Inputs, engine: str | None = None) -> Kernels:
        """NNGP and NTK of every input with itself, each (N,): the diagonal of `kernel(x)` at the cost of N pairs."""
        return self._kernels(*_pair(x, None, "x"), engine, own=True)

    def _kernels(self, x1: Tree, x2: Tree, engine: str | None, own: bool = False) -> Tree:
        """The network's kernels: both, or only the NNGP. `own`: of each input with itself."""
        leading, program, no_ntk = self._lowered(x1)
        after = self.after_leading(leading, x1), None if x2 is None else self.after_leading(leading, x2)
        found = compute(program, *after, engine, own=own)
        return found if no_ntk is None else NngpKernels.of(found, no_ntk)

    def kernel_field(
        self, x1: ArrayLike, x2: ArrayLike | None = None, positions: PositionPairs = "all", engine: str | None = None
    ) -> KernelField:
        """NNGP and NTK between the P output positions of x1 and those of x2 (None: x1 at half cost), (N1, P, N2, P).

        For networks that end on positions, such as a Conv or a GroupConv without a pool after it. Positions are in
        row-major order. `positions`: "all"; "same", the kernels at p = p', (N1, N2, P). Precision, arrays, derivatives
        and errors are as for `kernel`.

        >>> import numpy as np, equitangents as et
        >>> net = et.nn.Sequential(et.nn.Conv(8, (3, 3)), et.nn.Relu(), et.nn.Conv(1, (3, 3)))
        >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 1))
        >>> net.kernel_field(x[:2], x).ntk.shape, net.kernel_field(x, positions="same").ntk.shape
        ((2, 16, 5, 16), (5, 5, 16))
        """
        return self._field(*_pair(x1, x2), positions, engine)

    def kernel_field_diagonal(
        self, x: ArrayLike, positions: PositionPairs = "all", engine: str | None = None
    ) -> KernelField:
        """The kernel field of every input with itself: (N, P, P), or (N, P) with positions="same".

        Entries i = j of `kernel_field(x)`, at the cost of N pairs: the covariances within each output, or with
        positions="same" its variances.
        """
        return self._field(*_pair(x, None, "x"), positions, engine, own=True)

    def _field(self, x1: Tree, x2: Tree, positions: PositionPairs, engine: str | None, own: bool = False) -> Tree:
        """The field between pairs of positions, only the NNGP if there is no NTK; `own`: of each input with itself."""
        signals, no_ntk = self.signals(x1.shape[1:]), why_no_ntk(self._layers)
        end = signals[-1].positions
        part = part_of(positions, end.count)
        leading, program = lower_field(self._layers, signals, x1.convention if is_structured(x1) else None)
        if part.count == 1 and not isinstance(program.space, Points):
            found = _of_one_position(self._kernels(x1, x2, engine, own), part)
        else:
            after = self.after_leading(leading, x1), None if x2 is None else self.after_leading(leading, x2)
            found = compute(program, *after, engine, part, own)
        return replace(found, grid=end.shape) if no_ntk is None else NngpKernels.of(found, no_ntk)

    def lowered(self, x: Inputs) -> tuple[Tree, AnyProgram]:
        """(x after the leading layers without weights, (N, *positions, channels); the program of the other layers)."""
        leading, program, _ = self._lowered(x)
        return self.after_leading(leading, x), program

    def _lowered(self, x: Inputs) -> tuple[int, AnyProgram, str | None]:
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

        n2 None: n1 inputs with themselves. `masked`: inputs with missing positions. Work is counted, memory is planned,
        and the time on this machine is extrapolated from one block of random inputs; `print(net.kernel_cost((32, 32,
        3), 1000))` shows all. For a network that samples rotations, on signals (B², C), the resolution is that of
        random signals of unit variance.
        """
        shape = check_shape("input_shape", input_shape)
        leading, program, _ = _lower(self._layers, shape, SMALLER if masked else None)
        return kernel_cost(program, self.signals(shape)[leading].channels, n1, n2, dtype, engine)

    def after_leading(self, count: int, x: Inputs) -> Tree:
        """The input after the leading layers, which have no parameters."""
        if not count:
            return x
        dtype, layers = precision.working_dtype(x), self._layers[:count]
        signals = self.signals(x.shape[1:])[: count + 1]
        params, graphs = ((),) * count, getattr(x, "adjacency", None)
        if isinstance(x, np.ndarray) and all(isinstance(layer, Flatten) for layer in layers):
            return run_layers(layers, params, x.astype(dtype, copy=False), Structure(), signals)[0]
        with precision.scope(dtype):
            y, after = run_layers(layers, params, *_values(x, dtype), signals=signals)
            if graphs is not None:
                return Graphs(y, graphs, after.mask, x.convention)  # type: ignore[union-attr]
            if after.mask is not None and y.ndim > 2:
                return Masked(y, after.mask, after.masks)
            return np.asarray(y) if isinstance(getattr(x, "x", x), np.ndarray) else y


@contextmanager
def naming_misfits(layers: tuple[Layer, ...], params: Params, signals: tuple[Signals, ...]) -> Iterator[None]:
    """If applying layers fails, raise ShapeError for the first whose parameters differ in shape from those of `init`.

    Shapes are compared only after a failure, since users' own layers may change theirs.
    """
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError):
        held = len(params) if isinstance(params, tuple | list) else type(params)
        if held != len(layers):
            remedy = "one for each layer, as init gives"
            raise ShapeError("params", held, len(layers), remedy, verb="has entries,") from None
        made = jax.eval_shape(lambda key: init_layers(layers, key, signals, jnp.dtype("float32")), jax.random.key(0))
        remedy = "give inputs of the shape that init was given, or init for these"
        for i, both in enumerate(zip(params, made, strict=True)):
            held, needed = (jax.tree.map(np.shape, p) for p in both)
            if held != needed:
                raise ShapeError("params", held, needed, remedy, verb="has shapes", at=i) from None
        raise


def _values(x: Inputs, dtype: DType, key: jax.Array | None = None) -> tuple[jax.Array, Structure]:
    """(arrays (N, *positions, C) in a precision, their structure); vectors have no missing positions."""
    values, graphs = jnp.asarray(getattr(x, "x", x), dtype), getattr(x, "adjacency", None)
    graphs = None if graphs is None else jnp.asarray(graphs, dtype)
    mask = getattr(x, "mask", None) if values.ndim > 2 else None
    return values, Structure(mask, graphs, key, getattr(x, "convention", SMALLER))


def _pair(x1: Inputs, x2: Inputs | None, name: str = "x1") -> tuple[Tree, Tree]:
    """Two checked sets of inputs that fit each other: arrays (N, *positions, C), or with masks or graphs."""
    one = _check_inputs(name, x1)
    if x2 is None:
        return (*_without_empty_masks(one), None)
    two = _check_inputs("x2", x2)
    if two.shape[1:] != one.shape[1:]:
        raise ShapeError("x2", two.shape, ("N", *one.shape[1:]), "give inputs of the shape of x1")
    if is_structured(one) != is_structured(two):
        raise NetworkError("x2", type(x2), "masks or graphs in x1 and x2, or in neither", verb="is of type")
    if getattr(one, "convention", None) != getattr(two, "convention", None):
        raise NetworkError("x2", two.convention, one.convention, verb="has masks of convention")
    return _without_empty_masks(one, two)


def _without_empty_masks(*inputs: Any) -> tuple[Any, ...]:
    """Checked inputs, as plain arrays if all are `Masked` without missing positions; traced masks stay."""
    for x in inputs:
        if not isinstance(x, Masked) or precision.is_traced(x.mask):
            return inputs
    return tuple(x.x for x in inputs) if all(bool(np.all(x.mask)) for x in inputs) else inputs


def _check_inputs(name: str, x: Inputs) -> Tree:
    return checked(name, x) if is_structured(x) else check_array(name, x, min_rank=2)


def _of_one_position(kernels: Kernels | NngpKernels, part: Part) -> KernelField:
    """Kernels of a network with one output position as a field of the requested shape; without NTK, the NNGP twice."""
    tail = part.tail

    def field(values: ArrayLike) -> ArrayLike:
        one = values.reshape(values.shape + (1,) * len(tail))
        return part.public(one) if values.ndim == 2 else one

    nngp = field(kernels.nngp)
    ntk = nngp if isinstance(kernels, NngpKernels) else field(kernels.ntk)
    return KernelField(nngp, ntk, positions=part.kind, engine=kernels.engine, form=kernels.form, notes=kernels.notes)


@lru_cache(maxsize=512)
def _signals(layers: tuple[Layer, ...], input_shape: tuple[int, ...]) -> tuple[Signal, ...]:
    return chain(layers, Signal(Grid(input_shape[:-1]), input_shape[-1], deterministic=True))


@lru_cache(maxsize=512)
def _is_invariant(layers: tuple[Layer, ...], action: GroupAction, shape: tuple[int, ...]) -> bool:
    try:
        ops = lowered(layers, _signals(layers, shape), masked=False)
    except NetworkError:  # layers that have no operations by themselves
        return False
    return ops_are_invariant(ops, action, shape)


@lru_cache(maxsize=512)
def _lower(
    layers: tuple[Layer, ...], input_shape: tuple[int, ...], masks: str | None = None
) -> tuple[int, AnyProgram, str | None]:
    """(number of leading layers without weights, program of the other layers, reason why there is no NTK or None)."""
    return *lower(layers, _signals(layers, input_shape), masks), why_no_ntk(layers)


def chain(layers: tuple[Layer, ...], signal: Signal) -> tuple[Signal, ...]:
    """The signals before each layer and after the last."""
    signals = [signal]
    for i, layer in enumerate(layers):
        try:
            if signals[-1].several and not layer.joins:
                raise NetworkError("it follows a Parallel, whose branches Sum or Concatenate is to join first")
            if i and layers[i - 1].is_last:
                remedy = "its outputs transform with the input"
                raise NetworkError("layers", layers[i - 1], "no layer after it", remedy, at=i - 1)
            if not (layer.joins or layer.steers) and isinstance(signals[-1].positions, Steered):
                remedy = "read it by SteerableConv, SteerableDense, SteerablePool or a steerable nonlinearity"
                raise NetworkError("signal", signals[-1].positions, remedy=remedy)
            signals.append(layer.signal(signals[-1]))
        except NetworkError as error:
            raise NetworkError(f"layer {i}, {layer!r}: {error}") from None
    return tuple(signals)


def init_layers(layers: tuple[Layer, ...], key: jax.Array, signals: tuple[Signals, ...], dtype: DType) -> Params:
    """Parameters, a tuple with one entry per layer, each from its own key."""
    keys = jax.random.split(key, max(1, len(layers)))[: len(layers)]
    return tuple(layer.init(k, s, dtype) for layer, k, s in zip(layers, keys, signals[:-1], strict=True))


def run_layers(
    layers: tuple[Layer, ...], params: Params, x: Tree, structure: Tree, signals: Signals
) -> tuple[Tree, Tree]:
    """(output, structure after it) of layers one after another on a signal with masks, graphs and keys."""
    for i, (layer, p, s) in enumerate(zip(layers, params, signals[:-1], strict=True)):
        inner: Tree = tuple(b.within(i) for b in structure) if isinstance(structure, tuple) else structure.within(i)
        x, structure = layer.run(p, x, s, inner)
    return x, structure


@lru_cache(maxsize=256)
def why_no_ntk(layers: tuple[Layer, ...]) -> str | None:
    """Why one of the layers has no neural tangent kernel; None if all have."""
    return next((layer.no_ntk for layer in every(layers) if layer.no_ntk is not None), None)


def fold(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> tuple[tuple[Op, ...], GroupMoves | None] | None:
    """(operations on the grid, how the group moves it), or None if the theorem's conditions do not hold.

    A flattening readout needs only the identity's offset, which is the ordinary network's.
    """
    first = next((i for i, layer in enumerate(layers) if layer.lifts_to is not None), None)
    group = None if first is None else layers[first].lifts_to
    if first is None or not isinstance(group, Group) or group.torus is None:
        return None
    ops = fold_layers(layers, signals, group)
    if ops is None:
        return None
    turns = group.order // math.prod(group.torus)
    if turns == 1 or not any(op.is_pool and not op.is_diagonal for op in ops):
        return ops, None
    moves = layers[first].group_moves(signals[first])
    return (ops, GroupMoves(moves.points, moves.points, folded=turns)) if isinstance(moves, GroupMoves) else None


def fold_layers(layers: tuple[Layer, ...], signals: tuple[Signal, ...], group: Group) -> tuple[Op, ...] | None:
    """Operations of all `layers` on the grid, or None if one of them does not fold."""
    ops: list[Op] = []
    for layer, signal in zip(layers, signals, strict=False):
        folded = layer.fold(signal, group)
        if folded is None:
            return None
        ops.extend(folded)
    return tuple(ops)


def lower(layers: tuple[Layer, ...], signals: tuple[Signal, ...], masks: str | None = None) -> tuple[int, AnyProgram]:
    """(number of leading layers that are functions of the input, program of the other layers).

    `signals[i]` is the input of layer i; the last signal, the output, must have one position, else NetworkError.
    With `masks`, the convention for inputs with masks or graphs, the program runs over all pairs of positions.
    """
    last, leading = layers[-1], _count_leading(layers, signals)
    if isinstance(last, Readout) and masks is None:
        numbers = (*layers[:-1], Flatten(), Dense(1, W_std=last.W_std))
        moves = layers[leading].group_moves(signals[leading])
        if moves is None:
            wanted = "a Lift or SphereLift as the first layer with weights, for kernels before a Readout"
            raise NetworkError("layers", layers[leading], wanted, at=leading)
        return leading, last.projected(lower(numbers, chain(numbers, signals[0]))[1], moves, signals[-2])
    if signals[-1].positions.count != 1 or last.ends_on_points:
        remedy = "end the network with Flatten, GlobalAvgPool, GroupPool or SteerablePool, or ask for kernel_field"
        raise NetworkError("output", signals[-1].positions, "one position", remedy)
    layers, signals = layers[leading:], signals[leading:]
    folded = None if masks or isinstance(signals[-1].positions, Steered) else fold(layers, signals)
    if folded is not None:
        ops, moves = folded
        return leading, Program(Positions(signals[0].positions.shape, moves), ops)
    return leading, program_of(layers, signals, masks)


@lru_cache(maxsize=256)
def lower_field(
    layers: tuple[Layer, ...], signals: tuple[Signal, ...], masks: str | None = None
) -> tuple[int, AnyProgram]:
    """(number of leading layers without weights, program of the other layers), for a kernel field.

    Not folded, since every output position is needed. Raises NetworkError for networks that do not end on positions.
    """
    leading, end = _count_leading(layers, signals), signals[-1].positions
    if layers[-1].ends_on_points:
        return leading, program_of(layers[leading:-1], signals[leading:-1])
    if layers[-1].is_last or isinstance(end, Steered) or end.weights is not None:
        wanted = "positions of a grid, of a finite group or its cosets, or points before PointFeatures"
        raise NetworkError("output", end, wanted, "use kernel() in place of kernel_field()")
    return leading, program_of(layers[leading:], signals[leading:], masks)


def _count_leading(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> int:
    """Number of leading layers that are functions of the input."""
    pairs = enumerate(zip(layers, signals[1:], strict=True))
    return next((i for i, (layer, after) in pairs if layer.has_weights or not after.deterministic), len(layers))


def program_of(layers: tuple[Layer, ...], signals: tuple[Signal, ...], masks: str | None = None) -> AnyProgram:
    """The program of layers, without simplification; `signals[i]` is the input of layer i."""
    begin, end = signals[0].positions, signals[-1].positions
    if isinstance(end, Steered):
        if not signals[-1].gaussian:
            raise NetworkError("a nonlinearity of steerable features needs a linear layer after it, SteerableDense")
        assert isinstance(begin, Steered)
        whole, field = begin.points is None, end.points is not None
        space = Points(begin.count, begin.features, end.features, whole=whole, field=field)
        return Program(space, lowered(layers, signals, masked=False))
    if masks is None:
        pairs = zip(layers, signals, strict=False)
        lift = next((moves for layer, signal in pairs if (moves := layer.group_moves(signal)) is not None), None)
        ops = lowered(layers, signals, masked=False)
        return (structured_program if has_structure(ops) else field_program)(begin.shape, ops, lift)
    if any(layer.lifts_to is not None for layer in layers):
        raise NetworkError("networks that lift to a group do not take inputs with missing positions (masks) or graphs")
    return Program(StructuredPositions(begin.shape, masks), lowered(layers, signals, masked=masks == SMALLER))


def lowered(layers: tuple[Layer, ...], signals: tuple[Signal, ...], *, masked: bool) -> tuple[Any, ...]:
    """The operations of layers one after another; `masked`: with windows that fit each input's mask."""
    pairs = zip(layers, signals, strict=False)
    return tuple(op for layer, s in pairs for op in (layer.lower_masked(s) if masked else layer.lower(s)))
