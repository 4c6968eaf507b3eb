"""Branching networks: parallel layers, joins, and residual blocks x + layers(x).

`Parallel(a, b)` passes its input to both branches and returns two signals, which `Sum` or `Concatenate` joins. A
`Parallel` that follows another one acts on each signal separately.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NoReturn

import jax
import jax.numpy as jnp

from equitangents._types import DType, Params, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import Group
from equitangents.kernels import program
from equitangents.kernels.program import Op, residual
from equitangents.nn.layer import ByRun, Layer, ParameterFree, Signal, Signals, Steered, Structure
from equitangents.nn.sequential import Sequential, chain, fold_layers, init_layers, lowered, run_layers
from equitangents.structured import any_mask

_INPUT: frozenset[Any] = frozenset({"input"})  # the origin of what passes a branch without weights
_UNEVEN = "a sum after Concatenate or Flatten needs a layer with weights in all branches but one"


@dataclass(frozen=True)
class Branches:
    """The signals of parallel branches. `origins`: the weights behind each; equal origins are not independent."""

    several: ClassVar[Literal[True]] = True

    parts: tuple[Signal, ...]
    origins: tuple[frozenset[Any], ...]
    stage: int = 0

    @property
    def positions(self) -> NoReturn:
        """Raise: branches have no common set of positions."""
        raise NetworkError("the branches of a Parallel are not joined; put a Sum or a Concatenate after it")

    channels = array_shape = gaussian = positions
    deterministic = False


@dataclass(frozen=True, init=False, repr=False)
class _Holding(ByRun):
    """A layer that contains branches of layers."""

    inner: tuple[tuple[Layer, ...], ...]  # type: ignore[misc]

    @abc.abstractmethod
    def _lowered(self, signal: Signals, *, masked: bool) -> tuple[Any, ...]:
        """One operation that contains those of all branches; `masked`: with windows that fit each input's mask."""

    def lower(self, signal: Signals) -> tuple[Any, ...]:
        return self._lowered(signal, masked=False)

    def lower_masked(self, signal: Signals) -> tuple[Any, ...]:
        return self._lowered(signal, masked=True)


class Parallel(_Holding):
    """Parallel branches, each a layer, a `Sequential`, or a list of layers; `Identity()` passes its input on.

    A single signal goes into every branch. After another `Parallel`, each of its signals goes into its own branch.
    `Sum()` or `Concatenate()` joins the branches:

    ```python
    Sequential(Parallel([Conv(8, 3), Relu(), Conv(8, 3)], Conv(8, 1)), Sum(), Relu(), Flatten(), Dense(1))
    ```
    """

    joins: ClassVar[bool] = True  # it reads one signal, or several side by side

    def __init__(self, *branches: Layer | Sequential | Sequence[Layer]) -> None:
        if len(branches) < 1:
            raise NetworkError("branches", branches, "at least one")
        found = tuple(_layers(f"branches[{i}]", branch) for i, branch in enumerate(branches))
        object.__setattr__(self, "inner", found)

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        return any(layer.has_weights for branch in self.inner for layer in branch)

    def __repr__(self) -> str:
        return f"Parallel({', '.join(repr(list(branch)) for branch in self.inner)})"

    def inputs(self, signal: Signal | Branches) -> Branches:
        """The signal that each branch reads."""
        count = len(self.inner)
        if not isinstance(signal, Branches):
            # The other branches read the input, too: nothing in a branch counts as deterministic.
            return Branches((replace(signal, deterministic=False),) * count, (_INPUT,) * count)
        if len(signal.parts) == 1:
            return Branches(signal.parts * count, signal.origins * count, signal.stage)
        if len(signal.parts) != count:
            raise NetworkError("branches", count, len(signal.parts), "give one for each signal", verb="number")
        return signal

    def _chains(self, signal: Signal | Branches) -> list[tuple[Signals, ...]]:
        """For each branch, the signals before each of its layers and after the last."""
        return [chain(branch, before) for branch, before in zip(self.inner, self.inputs(signal).parts, strict=True)]

    def signal(self, signal: Signals) -> Signals:
        before = self.inputs(signal)
        chains = self._chains(signal)
        parts = tuple(signals[-1] for signals in chains)
        for i, part in enumerate(parts):
            if part.several:
                remedy = "join them inside it"
                raise NetworkError("branches", len(part.parts), "one signal", remedy, verb="ends in signals,", at=i)
        origins = (
            _behind(branch, signals, origin, frozenset({(before.stage, i)}))
            for i, (branch, signals, origin) in enumerate(zip(self.inner, chains, before.origins, strict=True))
        )
        return Branches(parts, tuple(origins), before.stage + 1)

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> Params:
        """A tuple with one entry per branch, each a tuple with one entry per layer."""
        keys = jax.random.split(key, len(self.inner))
        each = zip(self.inner, keys, self._chains(signal), strict=True)
        return tuple(init_layers(branch, k, signals, dtype) for branch, k, signals in each)

    def run(self, params: Params, x: Tree, signal: Signals, structure: Tree) -> Tree:
        """The tuple of the branches' outputs, with their structures."""
        count = len(self.inner)
        xs = x if isinstance(x, tuple) else (x,)
        structures = structure if isinstance(structure, tuple) else (structure,) * len(xs)
        if len(xs) == 1:
            xs, structures = xs * count, structures * count
        each = enumerate(zip(self.inner, params, xs, structures, self._chains(signal), strict=True))
        after = [run_layers(branch, p, y, b.within(i), signals) for i, (branch, p, y, b, signals) in each]
        return tuple(y for y, _ in after), tuple(b for _, b in after)

    def _lowered(self, signal: Signals, *, masked: bool) -> tuple[Any, ...]:
        pairs = zip(self.inner, self._chains(signal), strict=True)
        return (program.ParallelBranches(tuple(lowered(branch, signals, masked=masked) for branch, signals in pairs)),)


@dataclass(frozen=True)
class _Joining(ParameterFree):
    """Joins all signals of a Parallel into one."""

    joins: ClassVar[bool] = True

    def parts(self, signal: Signals) -> tuple[Signal, ...]:
        """The signals that are joined."""
        if not signal.several:
            raise NetworkError("signal", signal.positions, "the branches of a Parallel", verb="is on")
        return signal.parts

    def run(self, params: Params, x: Tree, signal: Signals, structure: Tree) -> Tree:
        """The joined signal, with the structure of the first; a position exists if it does in any branch."""
        structures = structure if isinstance(structure, tuple) else (structure,)
        mask = any_mask([each.mask for each in structures])
        return self.apply(params, x, signal), replace(structures[0], mask=mask)


class Sum(_Joining):
    """The sum of the branches: K = Σ K_i + Σ_{i≠j} m_i m_j' (m the means of fields after a nonlinearity), Θ = Σ Θ_i.

    Branches must be independent: of those that start from the same signal, at most one may have no weights of its own.
    Branches of steerable features must end in the same features, and all but one in a linear layer; coordinates do not
    change.
    """

    def signal(self, signal: Signals) -> Signal:
        """The common signal; Gaussian if all summands are."""
        parts = self.parts(signal)
        for part in parts:
            _check_passed_on(part)
        found = _total(parts, "branches", "have shapes with")
        if len(frozenset().union(*signal.origins)) < sum(map(len, signal.origins)):
            raise NetworkError(
                "two summands come from the same weights, so they are not independent and their sum has another "
                "kernel; put a layer with weights into one of them, or use Scale"
            )
        uneven = any(part.uneven for part in parts)
        if uneven and sum(not part.gaussian for part in parts) > 1:
            raise NetworkError(_UNEVEN)
        return replace(found, uneven=uneven)

    def apply(self, params: Params, x: Tree, signal: Signals) -> jax.Array:
        return _summed(x, self.parts(signal)[0])

    def lower(self, signal: Signals) -> tuple[Any, ...]:
        return (program.ParallelBranches((), joined=True),)


class Concatenate(_Joining):
    """The concatenated channels of the branches: K = Σ c_i K_i / Σ c_i with numbers of channels c_i; Θ likewise."""

    def signal(self, signal: Signals) -> Signal:
        """All channels; no longer Gaussian, since channels of different branches differ in variance."""
        parts = self.parts(signal)
        positions = parts[0].positions
        if isinstance(positions, Steered):
            remedy = "end the branches in the same features, and join them with Sum"
            raise NetworkError("signal", positions, "plain channels", remedy, verb="is on")
        if any(part.positions != positions for part in parts):
            raise NetworkError("Concatenate joins channels of signals on equal positions; these differ")
        if len(parts) == 1:
            return parts[0]
        return replace(parts[0], channels=sum(part.channels for part in parts), gaussian=False, uneven=True)

    def apply(self, params: Params, x: Tree, signal: Signals) -> jax.Array:
        return jnp.concatenate(x, axis=-1)

    def lower(self, signal: Signals) -> tuple[Any, ...]:
        counts = [part.channels for part in self.parts(signal)]
        return (program.ParallelBranches((), joined=True, shares=tuple(c / sum(counts) for c in counts)),)


def _layers(name: str, branch: object) -> tuple[Layer, ...]:
    if isinstance(branch, Sequential):
        return branch.layers
    layers = tuple(branch) if isinstance(branch, list | tuple) else (branch,)
    for layer in layers:
        if not isinstance(layer, Layer):
            raise InvalidTypeError(name, layer, "layers of equitangents.nn", verb="holds")
    if not layers:
        raise InvalidArgumentError(name, layers, "at least one layer", "Identity() passes its input on")
    return layers


class Residual(_Holding):
    """x + layers(x).

    K' = K + K_branch, Θ' = Θ + Θ_branch. If input and branch both end in a nonlinearity of non-zero mean,
    m(p) = E[φ], K' gains m_x(p) m_branch(p') + m_branch(p) m_x(p'). For steerable features, one of the two must be
    linear and the branch must return the features of its input; coordinates do not change.
    """

    def __init__(self, *layers: Layer) -> None:
        object.__setattr__(self, "inner", (Sequential(*layers).layers,))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the branch."""
        return self.inner[0]

    def signals(self, signal: Signal) -> tuple[Signal, ...]:
        """Input signals of each layer of the branch, and its output signal."""
        # The sum reads the input, too: nothing in the branch counts as deterministic.
        return chain(self.layers, replace(signal, deterministic=False))

    @property
    def steers(self) -> bool:  # type: ignore[override]
        return any(layer.steers for layer in self.layers)

    def __repr__(self) -> str:
        return f"Residual({', '.join(map(repr, self.layers))})"

    def signal(self, signal: Signal) -> Signal:
        """The input signal; Gaussian if both summands are."""
        _check_passed_on(signal)
        *_, out = signals = self.signals(signal)
        if _behind(self.layers, signals, _INPUT, frozenset({"branch"})) & _INPUT:
            raise NetworkError(
                "a residual block needs a layer with weights that all of its branch goes through: what passes its "
                "input on is not independent of it; use Scale for multiples of the input"
            )
        if out.uneven and not (signal.gaussian or out.gaussian):
            raise NetworkError(_UNEVEN)  # the means of both may differ between channels, as an input's do
        return replace(_total((signal, out), "branch", "gives shape"), uneven=signal.uneven or out.uneven)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """A tuple with one entry per layer of the branch."""
        return init_layers(self.layers, key, self.signals(signal), dtype)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        y, after = run_layers(self.layers, params, x, structure, self.signals(signal))
        return after.after(_summed((x, y), signal), structure.mask)

    def _lowered(self, signal: Signal, *, masked: bool) -> tuple[Op, ...]:
        return (residual(lowered(self.layers, self.signals(signal), masked=masked)),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        inner = fold_layers(self.layers, self.signals(signal), group)
        return None if inner is None else (residual(inner),)


def _behind(
    layers: Sequence[Layer], signals: Sequence[Signals], before: frozenset[Any], own: frozenset[Any]
) -> frozenset[Any]:
    """The origins of the output of `layers`: those of their input, `before`, if that passes on, and `own` weights."""
    found = before
    for layer, signal in zip(layers, signals, strict=False):
        if isinstance(layer, Parallel):
            continue  # what joins its branches knows their origins
        if signal.several:
            inside = frozenset().union(*signal.origins)
            found = (found if inside & _INPUT else frozenset()) | (own if inside - _INPUT else frozenset())
        elif layer.has_weights:
            found = found | own if isinstance(layer, Residual) else own
    return found


def _check_passed_on(signal: Signal) -> None:
    """Raise NetworkError if a branch without weights adds the input's own steerable features to a sum."""
    if isinstance(signal.positions, Steered) and signal.positions.deterministic:
        remedy = "a sum with the input has no infinitely wide limit: put SteerableConv or SteerableDense first"
        raise NetworkError("signal", signal.positions, remedy=remedy)


def _total(parts: Sequence[Signal], name: str, verb: str) -> Signal:
    """The sum of several signals of equal shape, Gaussian if the sum is; NetworkError for others.

    Nonlinearities of steerable features may have means; the products of two summands' means would be missing in the
    kernel.
    """
    first = parts[0]
    for part in parts[1:]:
        if (part.positions, part.channels) != (first.positions, first.channels):
            raise NetworkError(name, _shape(part), _shape(first), "a sum needs equal shapes", verb=verb)
    if isinstance(first.positions, Steered) and sum(not part.gaussian for part in parts) > 1:
        raise NetworkError(
            "two summands of steerable features end in a nonlinearity, whose means may add to the kernel; end "
            "all branches but one with SteerableConv or SteerableDense"
        )
    return replace(parts[-1], gaussian=all(part.gaussian for part in parts))


def _shape(signal: Signal) -> str:
    return str(signal.positions if isinstance(signal.positions, Steered) else signal.array_shape)


def _summed(values: Sequence[jax.Array], signal: Signal) -> jax.Array:
    """The sum of the branches' features; coordinates of points (the leading channels) are those of the first branch."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    n = signal.positions.coordinates if isinstance(signal.positions, Steered) else 0
    return jnp.concatenate([values[0][..., :n], total[..., n:]], axis=-1) if n else total
