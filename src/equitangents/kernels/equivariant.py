"""Equivariant kernels of any network: K(x, x') = ∫ ρ(q) k(x, q x') dq.

y(x) = ∫ ρ(g)ᵀ F(gx) dg, F a network with d outputs of kernel k each: y(gx) = ρ(g) y(x). Where k is invariant one orbit
suffices. The mean of F's ensemble trained with augmentation and labels that turn by ρ is that of y's ensemble trained
on the data alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.representations import Representation, RepresentationLike, as_representation
from equitangents.kernels.invariance import draws_noise, is_invariant
from equitangents.kernels.projected.program import Nodes, Sums, all_pairs, diagonal
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.kernels.rotations.resolution import sampled_for
from equitangents.kernels.runs.scaling import result
from equitangents.precision import is_traced, working_dtype

_SAME = 1e-9  # matrices of one element, in float64


@dataclass(frozen=True)
class EquivariantAverage:
    """The kernel made from `base` by `action` and a representation of its group; see `equivariant_average`."""

    base: KernelFunction
    action: GroupAction
    representation: Representation

    @property
    def equivariant_outputs(self) -> int:
        """d, the number of equivariant outputs."""
        return self.representation.dimension

    @property
    def samples_rotations(self) -> bool:
        """Whether the base may sample rotations as finely as the inputs of each call ask for."""
        return bool(getattr(self.base, "samples_rotations", False))

    def sampled_for(self, x: ArrayLike) -> EquivariantAverage:
        """This average, its base sampled as inputs x ask for."""
        return replace(self, base=sampled_for(self.base, lambda: x))

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
        if self._invariant(x):
            return self._result(diagonal(self._base, self._nodes, x), x)
        blocks = [self._sums(x[i : i + 1], None) for i in range(len(x))]
        join = [np.concatenate([np.asarray(getattr(b, name)[0]) for b in blocks]) for name in ("nngp", "ntk")]
        return self._result(Sums(join[0], join[1], blocks[-1].term), x)

    def _sums(self, x1: Any, x2: Any) -> Sums:
        if self._invariant(*(x for x in (x1, x2) if x is not None)):
            return all_pairs(self._base, self._nodes, x1, x2)
        # ∫∫ ρ(g)ᵀ ρ(h) k(gx, hx') dg dh: the first orbit element by element
        nodes, second = self._nodes, x1 if x2 is None else x2
        weights, rho = self._weights, self._matrices
        total: list[Any] = [0.0, 0.0]
        for g in range(len(nodes)):
            found = all_pairs(self._base, nodes, nodes.move(np.array([g]), x1)[0], second)
            turned = rho[g].T * weights[g]
            for i, k in enumerate((found.nngp, found.ntk)):
                total[i] = total[i] + turned @ k
        if x2 is None:
            total = [(k + k.transpose(1, 0, 3, 2)) / 2 for k in total]
        return Sums(total[0], total[1], found.term)

    @cached_property
    def _matrices(self) -> np.ndarray:
        return self.representation.at(self.action.group)

    @cached_property
    def _weights(self) -> np.ndarray:
        weights = self.action.group.weights
        assert weights is not None
        return weights

    @cached_property
    def _nodes(self) -> Nodes:
        action = self.action
        elements = action.group.nodes
        assert elements is not None
        inverses = action.group.inverses if isinstance(action, Action) else None
        chosen = np.asarray(elements)
        weighted = self._matrices * self._weights[:, None, None]
        return Nodes(weighted, inverses, lambda numbers, x: action.orbit(x, chosen[numbers]))

    def _base(self, x1: Any, x2: Any) -> Kernels:
        found: Kernels = self.base.kernel(x1, x2)
        return found

    def _invariant(self, *given: Any) -> bool:
        if any(map(is_traced, given)):
            raise InvalidTypeError("equivariant averages need the values of the arrays, which are not known inside jit")
        return is_invariant(self.base, self.action, *given)

    def _result(self, sums: Sums, *given: Any) -> Kernels:
        nngp, ntk = (np.asarray(k, working_dtype(*given)) for k in (sums.nngp, sums.ntk))
        note = f"{len(self._nodes)} elements of {self.action.group.name}, weighed by a representation"
        term = sums.term
        return result(given, nngp, ntk, None, 0, engine=term.engine, form=term.form, notes=(*term.notes, note))


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
