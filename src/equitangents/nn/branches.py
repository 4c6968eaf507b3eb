"""Branching networks: layers side by side, joins, and residual blocks x + layers(x).

`Parallel(a, b)` gives its input to both; what comes out are two signals, which `Sum` or `Concatenate` join. Between
them further `Parallel`s may stand, which then act on each signal by itself.
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
from equitangents.nn.layer import ByRun, Layer, ParameterFree, Signal, Signals, Structure
from equitangents.nn.lowering import chain, fold_layers, init_layers, lowered, run_layers, why_no_ntk
from equitangents.nn.sequential import Sequential
from equitangents.nn.steerable.inputs import check_passed_on, check_summands, shape_of, summed


@dataclass(frozen=True)
class Branches:
    """Signals side by side. `origins`: from which random weights each comes; equal ones are not independent."""

    several: ClassVar[Literal[True]] = True

    parts: tuple[Signal, ...]
    origins: tuple[frozenset[Any], ...]
    stage: int = 0

    @property
    def positions(self) -> NoReturn:
        """There is no common set of positions."""
        raise NetworkError("the branches of a Parallel are not joined; put a Sum or a Concatenate after it")

    channels = array_shape = gaussian = positions
    given = False


class _Holding(ByRun):
    """A layer that holds branches of others."""

    @property
    @abc.abstractmethod
    def inner(self) -> tuple[tuple[Layer, ...], ...]:  # type: ignore[override]
        """The layers of each branch."""

    @abc.abstractmethod
    def _lowered(self, signal: Signals, *, masked: bool) -> tuple[Any, ...]:
        """One operation that holds those of all branches; `masked`: with windows that fit each input's mask."""

    @property
    def no_ntk(self) -> str | None:  # type: ignore[override]
        """Why a layer inside has no NTK; None if all have."""
        return why_no_ntk(sum(self.inner, ()))

    def lower(self, signal: Signals) -> tuple[Any, ...]:
        """One operation that holds those of all branches."""
        return self._lowered(signal, masked=False)

    def lower_masked(self, signal: Signals) -> tuple[Any, ...]:
        """One operation that holds the branches, with windows of smaller inputs."""
        return self._lowered(signal, masked=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holding) and type(other) is type(self) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((type(self), self.inner))


class Parallel(_Holding):
    """Branches: each is a layer, a `Sequential`, or a list of layers; `Identity()` passes its input on.

    One signal goes into every branch. Of several signals, which a `Parallel` before left, each goes into its own
    branch. A network goes on after `Sum()` or `Concatenate()`:

    ```python
    Sequential(Parallel([Conv(8, 3), Relu(), Conv(8, 3)], Conv(8, 1)), Sum(), Relu(), Flatten(), Dense(1))
    ```
    """

    joins: ClassVar[bool] = True  # it reads one signal, or several side by side

    def __init__(self, *branches: Layer | Sequential | Sequence[Layer]) -> None:
        if len(branches) < 1:
            raise NetworkError("Parallel needs at least one branch")
        self._branches = tuple(_layers(f"branches[{i}]", branch) for i, branch in enumerate(branches))

    @property
    def inner(self) -> tuple[tuple[Layer, ...], ...]:  # type: ignore[override]
        """The layers of each branch."""
        return self._branches

    def with_inner(self, inner: Sequence[Sequence[Layer]]) -> Parallel:
        """As many branches of other layers."""
        return Parallel(*inner)

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        """Whether a layer of some branch has parameters."""
        return any(layer.has_weights for branch in self._branches for layer in branch)

    def __repr__(self) -> str:
        return f"Parallel({', '.join(repr(list(branch)) for branch in self._branches)})"

    def inputs(self, signal: Signals) -> tuple[tuple[Signal, ...], tuple[frozenset[Any], ...], int]:
        """(the signal that each branch reads, from which weights it comes, the number of stages before)."""
        if not signal.several:
            # Nothing in a branch is a function of the input alone: the other branches read it, too.
            signal = replace(signal, given=False)
            return (signal,) * len(self._branches), (frozenset({"input"}),) * len(self._branches), 0
        if len(signal.parts) == 1:
            return signal.parts * len(self._branches), signal.origins * len(self._branches), signal.stage
        if len(signal.parts) != len(self._branches):
            raise NetworkError(
                "branches", len(self._branches), len(signal.parts), "give one for each signal", verb="number"
            )
        return signal.parts, signal.origins, signal.stage

    def signal(self, signal: Signals) -> Signals:
        """The signals that leave the branches."""
        inputs, origins, stage = self.inputs(signal)
        parts: list[Signal] = []
        found: list[frozenset[Any]] = []
        for i, (branch, before, origin) in enumerate(zip(self._branches, inputs, origins, strict=True)):
            after = chain(branch, before)[-1]
            if after.several:
                raise NetworkError(
                    "branches",
                    len(after.parts),
                    "one signal",
                    "join them inside it",
                    verb="ends in signals,",
                    at=i,
                )
            parts.append(after)
            found.append(frozenset({(stage, i)}) if any(layer.has_weights for layer in branch) else origin)
        return Branches(tuple(parts), tuple(found), stage + 1)

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> Params:
        """A tuple with one entry a branch, of one entry a layer."""
        inputs, _, _ = self.inputs(signal)
        keys = jax.random.split(key, len(self._branches))
        each = zip(self._branches, keys, inputs, strict=True)
        return tuple(init_layers(branch, k, chain(branch, s), dtype) for branch, k, s in each)

    def run(self, params: Params, x: Tree, signal: Signals, structure: Tree) -> Tree:
        """The outputs of all branches, a tuple, with their structures."""
        inputs, _, _ = self.inputs(signal)
        several = isinstance(x, tuple)
        xs = x if several else (x,)
        beside = structure if isinstance(structure, tuple) else (structure,) * len(xs)
        if len(xs) == 1:
            xs, beside = xs * len(self._branches), beside * len(self._branches)
        outputs: list[Any] = []
        after: list[Structure] = []
        for i, (branch, p, y, s, b) in enumerate(zip(self._branches, params, xs, inputs, beside, strict=True)):
            out, goes_on = run_layers(branch, p, y, b.within(i), chain(branch, s))
            outputs.append(out)
            after.append(goes_on)
        return tuple(outputs), tuple(after)

    def _lowered(self, signal: Signals, *, masked: bool) -> tuple[Any, ...]:
        inputs, _, _ = self.inputs(signal)
        pairs = zip(self._branches, inputs, strict=True)
        return (program.Parallel(tuple(lowered(branch, chain(branch, s), masked=masked) for branch, s in pairs)),)


@dataclass(frozen=True)
class _Joining(ParameterFree):
    """Joins all signals of a Parallel to one."""

    joins: ClassVar[bool] = True

    def parts(self, signal: Signals) -> tuple[Signal, ...]:
        """The signals that are joined."""
        if not signal.several:
            raise NetworkError("signal", signal.positions, "the branches of a Parallel", verb="is on")
        return signal.parts

    def run(self, params: Params, x: Tree, signal: Signals, structure: Tree) -> Tree:
        """The joined signal, with the structure of the first."""
        return self.apply(params, x, signal), structure[0] if isinstance(structure, tuple) else structure


class Sum(_Joining):
    """The sum of the branches: K = Σ K_i + Σ_{i≠j} m_i m_j' (m the means of fields after a nonlinearity), Θ = Σ Θ_i.

    Branches must be independent: at most one of those that come from the same signal may be without weights of its own.
    Branches of steerable features end in the same features, all but one of them with a linear layer; coordinates stay
    as they are.
    """

    def signal(self, signal: Signals) -> Signal:
        """The common signal; Gaussian if all summands are."""
        parts = self.parts(signal)
        for part in parts:
            check_passed_on(part)
        for part in parts[1:]:
            if (part.positions, part.channels) != (parts[0].positions, parts[0].channels):
                raise NetworkError(
                    "branches", shape_of(part), shape_of(parts[0]), "a sum needs equal shapes", verb="have shapes with"
                )
        check_summands(parts)
        if len(frozenset().union(*signal.origins)) < sum(map(len, signal.origins)):
            raise NetworkError(
                "two summands come from the same weights, so they are not independent and their sum has another "
                "kernel; put a layer with weights into one of them, or use Scale"
            )
        if any(part.uneven for part in parts) and sum(not part.gaussian for part in parts) > 1:
            raise NetworkError("a sum after Concatenate or Flatten needs a layer with weights in all branches but one")
        return replace(parts[0], gaussian=all(p.gaussian for p in parts), uneven=any(p.uneven for p in parts))

    def apply(self, params: Params, x: Tree, signal: Signals) -> jax.Array:
        """The sum of the signals."""
        return summed(x, self.parts(signal)[0])

    def lower(self, signal: Signals) -> tuple[Any, ...]:
        """One operation that adds all fields."""
        return (program.Parallel((), joined=True),)


class Concatenate(_Joining):
    """Channels of the branches side by side: K = Σ c_i K_i / Σ c_i with their numbers of channels c_i, and Θ alike."""

    def signal(self, signal: Signals) -> Signal:
        """All channels; no longer Gaussian, since channels of different branches differ in variance."""
        parts = self.parts(signal)
        positions = parts[0].positions
        if positions.steerable:
            raise NetworkError(
                "signal",
                positions,
                "plain channels",
                "end the branches in the same features, and join them with Sum",
                verb="is on",
            )
        if any(part.positions != parts[0].positions for part in parts):
            raise NetworkError("Concatenate joins channels of signals on equal positions; these differ")
        alone = len(parts) == 1
        return replace(
            parts[0],
            channels=sum(part.channels for part in parts),
            gaussian=alone and parts[0].gaussian,
            uneven=parts[0].uneven if alone else True,
        )

    def apply(self, params: Params, x: Tree, signal: Signals) -> jax.Array:
        """Channels side by side, along the last axis."""
        return jnp.concatenate(x, axis=-1)

    def lower(self, signal: Signals) -> tuple[Any, ...]:
        """One operation with each branch's share of channels."""
        counts = [part.channels for part in self.parts(signal)]
        return (program.Parallel((), joined=True, shares=tuple(c / sum(counts) for c in counts)),)


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

    K' = K + K_branch, Θ' = Θ + Θ_branch; where input and branch both end in a nonlinearity of non-zero mean,
    m(p) = E[φ], K' gains m_x(p) m_branch(p') + m_branch(p) m_x(p'). Of steerable features one of the two has to be
    linear, the branch ends in the features that it starts from, and coordinates stay as they are.
    """

    def __init__(self, *layers: Layer) -> None:
        self._body = Sequential(*layers)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the branch."""
        return self._body.layers

    def signals(self, signal: Signal) -> tuple[Signal, ...]:
        """Input signals of each layer of the branch, and its output signal."""
        # Nothing in the branch is a function of the input alone: the sum reads the input, too.
        return chain(self.layers, replace(signal, given=False))

    @property
    def inner(self) -> tuple[tuple[Layer, ...], ...]:  # type: ignore[override]
        """The layers of its only branch."""
        return (self.layers,)

    def with_inner(self, inner: Sequence[Sequence[Layer]]) -> Residual:
        """This block with other layers in its branch."""
        (layers,) = inner
        return Residual(*layers)

    @property
    def steers(self) -> bool:  # type: ignore[override]
        """Whether its layers read steerable features."""
        return any(layer.steers for layer in self.layers)

    def __repr__(self) -> str:
        return f"Residual({', '.join(map(repr, self.layers))})"

    def signal(self, signal: Signal) -> Signal:
        """The signal that comes in; Gaussian if both summands are."""
        check_passed_on(signal)
        out = self.signals(signal)[-1]
        if not any(layer.has_weights for layer in self.layers):
            # Without weights of its own the branch is not independent of its input.
            raise NetworkError("a residual block needs a layer with weights")
        if (out.positions, out.channels) != (signal.positions, signal.channels):
            raise NetworkError(
                "branch", shape_of(out), shape_of(signal), "a residual sum needs equal shapes", verb="gives shape"
            )
        check_summands((signal, out))
        return replace(out, gaussian=out.gaussian and signal.gaussian)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """A tuple with one entry a layer of the branch."""
        return init_layers(self.layers, key, self.signals(signal), dtype)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """The input plus the branch's output, with masks, graphs and keys."""
        y, after = run_layers(self.layers, params, x, structure, self.signals(signal))
        return after.after(summed((x, y), signal), structure.mask)

    def _lowered(self, signal: Signal, *, masked: bool) -> tuple[Op, ...]:
        return (residual(lowered(self.layers, self.signals(signal), masked=masked)),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """A branch, if all of its layers fold."""
        inner = fold_layers(self.layers, self.signals(signal), group)
        return None if inner is None else (residual(inner),)
