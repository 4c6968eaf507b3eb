"""Averages over orbits: invariant and equivariant kernels, from any network and any action.

Θ_inv(x, x') = (1/|G|) Σ_g Θ(x, ρ(g)x') where Θ(ρ(g)x, ρ(g)x') = Θ(x, x'); without that, the mean over both orbits,
(1/|G|²) Σ_{g,h} Θ(ρ(g)x, ρ(h)x').   Source: arXiv 2403.03103, arXiv 2406.06504 (Theorem 5.1).

Equivariant: K(x, x') = ∫ ρ(q) k(x, q x') dq. y(x) = ∫ ρ(g)ᵀ F(gx) dg, F a network with d outputs of kernel k each, has
y(gx) = ρ(g) y(x). Where k is invariant one orbit suffices. The mean of F's ensemble trained with augmentation and
labels that turn by ρ is that of y's ensemble trained on the data alone.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, cast

import jax
import numpy as np
from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.actions.compact import check_finite_group
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.representations import Representation, RepresentationLike, as_representation
from equitangents.kernels.cost import CostedKernel, KernelCost, repeated
from equitangents.kernels.fields import check_result, result_bytes
from equitangents.kernels.invariance import draws_noise, is_invariant, known_invariant
from equitangents.kernels.projected import Nodes, Sums, both_orbits, diagonal, one_orbit, rows_of
from equitangents.kernels.result import KernelFunction, Kernels, result
from equitangents.kernels.rotations import sampled_for
from equitangents.precision import is_traced, scope, working_dtype
from equitangents.structured import is_structured
from equitangents.validation import check_array

logger = logging.getLogger("equitangents")


@dataclass(frozen=True)
class _Average:
    """The kernel that averages are made from."""

    base: KernelFunction

    @property
    def samples_rotations(self) -> bool:
        """Whether the base may sample rotations as finely as the inputs of each call ask for."""
        return bool(getattr(self.base, "samples_rotations", False))

    def sampled_for(self, x: ArrayLike) -> Self:
        """This average, its base sampled as inputs x ask for."""
        return replace(self, base=sampled_for(self.base, lambda: x))


@dataclass(frozen=True)
class OrbitAverage(_Average):
    """The invariant kernel made from `base` by `action`; it has `.kernel` as a network has."""

    action: Action

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Orbit-averaged NNGP and NTK, (N1, N2); `.notes` says whether one orbit was averaged or both.

        One orbit suffices where the base is known to be invariant, by what it says of itself, whatever the inputs.

        Raises MemoryLimitError where they cannot fit in memory three times: the sum, one term, and both added.
        """
        x1, x2 = as_array("x1", x1), as_array("x2", x2)
        dtype, order = working_dtype(x1, x2), self.action.group.order
        results = result_bytes(len(x1), len(x1 if x2 is None else x2), dtype.itemsize)
        check_result(x1, x2, dtype, 2 * results)
        nodes = Nodes(np.full((order, 1, 1), 1 / order), True, lambda chosen, x: self.action.orbit(x, chosen))
        # What an input draws of its own is in the kernel of one set of inputs alone.
        invariant = is_invariant(self.base, self.action, x1) and not (x2 is None and self.draws_noise)
        note = "mean over one orbit"
        if not invariant:
            note = "mean over both orbits: the base kernel is not known to be invariant"
            logger.info("orbit average over %s: %s", self.action.name, note)
        with scope(dtype):  # sums of float64 arrays of JAX are float64
            sums = (one_orbit if invariant else both_orbits)(self.base.kernel, nodes, x1, x2)
            nngp, ntk = (k[:, :, 0, 0].astype(dtype) for k in (sums.nngp, sums.ntk))
        # A result of the user's own need not say anything beside its kernels.
        facts = {f.name: getattr(sums.term, f.name) for f in fields(Kernels)[2:] if hasattr(sums.term, f.name)}
        return result((x1, x2), nngp, ntk, **facts | {"notes": (*facts.get("notes", ()), note)})

    def kernel_cost(
        self, input_shape: tuple[int, ...], n1: int, n2: int | None = None, dtype: DTypeLike = "float32"
    ) -> KernelCost:
        """Cost of `kernel` for n1 and n2 inputs of `input_shape` (None: n1 with themselves)."""
        order, columns = self.action.group.order, n1 if n2 is None else n2
        costed = cast(CostedKernel, self.base)
        runs = [(costed.kernel_cost(input_shape, n1, columns, dtype), float(order))]
        one = known_invariant(self.base, self.action, input_shape)
        if n2 is None and one:
            share = sum((rows.stop - rows.start) * (n1 - rows.start) for rows in rows_of(n1)) / n1**2
            runs = [(runs[0][0], order * share)]
        elif n2 is None:
            runs = [(costed.kernel_cost(input_shape, n1, None, dtype), order), (runs[0][0], order * (order - 1) / 2)]
        elif not one:
            runs = [(runs[0][0], order**2)]
        return repeated(runs, math.prod(input_shape) * np.dtype(dtype).itemsize * columns)

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether it is known to be invariant: under the action that it is an average over."""
        return action == self.action

    @property
    def draws_noise(self) -> bool:
        """As what is averaged."""
        return draws_noise(self.base)


def as_array(name: str, x: Any) -> Any:
    """Arrays, inputs with masks or graphs, and None unchanged; anything else as a checked array."""
    return x if x is None or isinstance(x, np.ndarray | jax.Array) or is_structured(x) else check_array(name, x)


def orbit_average(net: KernelFunction, action: Action) -> OrbitAverage:
    """The invariant kernel of any network and any action: (1/|G|) Σ_g Θ(x, ρ(g)x').

    Where the base is not known to be invariant, both orbits are averaged. Networks know by their layers; an object of
    your own says so by a method `invariant_under(action, input_shape) -> bool`, true for all inputs of this shape.
    """
    if not hasattr(net, "kernel"):
        raise InvalidTypeError("net", net, "a network, or anything with .kernel(x1, x2)")
    check_finite_group("action", action, "an orbit average")
    if not isinstance(action, Action):
        raise InvalidTypeError("action", action, "an action of equitangents.actions")
    return OrbitAverage(net, action)


_SAME = 1e-9  # matrices of one element, in float64


@dataclass(frozen=True)
class EquivariantAverage(_Average):
    """The kernel made from `base` by `action` and a representation of its group; see `equivariant_average`."""

    action: GroupAction
    representation: Representation

    @property
    def equivariant_outputs(self) -> int:
        """d, the number of equivariant outputs."""
        return self.representation.dimension

    def outputs_equivariant_under(
        self, action: GroupAction, input_shape: tuple[int, ...], matrices: np.ndarray
    ) -> bool:
        """Whether K(gx, x') = M_g K(x, x') is known for each generator g."""
        if action != self.action or not isinstance(action, Action) or not action.exact:
            return False
        turns = self._matrices[list(action.group.generators)]
        return bool(np.abs(turns - matrices).max() <= _SAME)

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """NNGP and NTK of d outputs, (N1, N2, d, d), with K(gx, g'x') = ρ(g) K(x, x') ρ(g')ᵀ."""
        return self._result(self._sums(x1, x2), x1, x2)

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """NNGP and NTK of every input with itself, (N, d, d)."""
        return self._result(diagonal(lambda one: self._sums(one, None), x), x)

    def _sums(self, x1: Any, x2: Any) -> Sums:
        given = [x for x in (x1, x2) if x is not None]
        if any(map(is_traced, given)):
            raise InvalidTypeError("equivariant averages need the values of the arrays, which are not known inside jit")
        run = one_orbit if is_invariant(self.base, self.action, *given) else both_orbits
        return run(self.base.kernel, self._nodes, x1, x2)

    @cached_property
    def _matrices(self) -> np.ndarray:
        return self.representation.at(self.action.group)

    @cached_property
    def _nodes(self) -> Nodes:
        elements, weights = self.action.group.nodes, self.action.group.weights
        assert elements is not None
        assert weights is not None
        chosen = np.asarray(elements)
        weighted = self._matrices * weights[:, None, None]
        return Nodes(
            weighted, isinstance(self.action, Action), lambda numbers, x: self.action.orbit(x, chosen[numbers])
        )

    def _result(self, sums: Sums, *given: Any) -> Kernels:
        nngp, ntk = (np.asarray(k, working_dtype(*given)) for k in (sums.nngp, sums.ntk))
        note = f"{len(self._nodes)} elements of {self.action.group.name}, weighed by a representation"
        term = sums.term
        return result(given, nngp, ntk, engine=term.engine, form=term.form, notes=(*term.notes, note))


def equivariant_average(
    net: KernelFunction, action: GroupAction, representation: RepresentationLike
) -> EquivariantAverage:
    """The equivariant kernel of any network: ∫ ρ(q) k(x, q x') dq, a (d, d) matrix for each pair of inputs.

    Training its ensemble on N samples with targets (N, d) gives, at every time and input, the mean of the ensemble of
    `net` with d outputs that is trained on all {(gx_i, ρ(g)y_i)} (`augmentation=action`, targets moved by ρ).

    Args:
        net: A network with one kernel for all outputs, or anything with `.kernel(x1, x2)`. Where its kernel is
            not known to be invariant, both orbits are averaged.
        action: How the group moves inputs: a finite group's, or one of SO(2), SO(3) or O(3), whose mean is a
            quadrature over `action.group.nodes`.
        representation: ρ, as `nn.Readout` takes it.
    """
    if not hasattr(net, "kernel"):
        raise InvalidTypeError("net", net, "a network, or anything with .kernel(x1, x2)")
    if getattr(net, "equivariant_outputs", None) is not None:
        raise InvalidArgumentError("net has outputs that turn already; give a network whose outputs are alike")
    if draws_noise(net):
        raise InvalidArgumentError(
            "net draws noise, such as dropout's, for each input, and a quadrature has no copy twice; take a net "
            "without, such as Dropout(rate, mode='test')"
        )
    if not isinstance(action, GroupAction):
        raise InvalidTypeError("action", action, "an action of equitangents.actions")
    if action.group.nodes is None:
        raise InvalidTypeError("action", action.group, "a group with a quadrature, for means over it", verb="is of")
    found = EquivariantAverage(net, action, as_representation("representation", representation))
    found._matrices  # noqa: B018  raises where the representation is of another group
    return found
