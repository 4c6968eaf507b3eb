"""Averages over orbits: invariant kernels, from any network and any action of a finite group.

Θ_inv(x, x') = (1/|G|) Σ_g Θ(x, ρ(g)x') if Θ(ρ(g)x, ρ(g)x') = Θ(x, x'); otherwise the mean over both orbits,
(1/|G|²) Σ_{g,h} Θ(ρ(g)x, ρ(h)x').   Source: arXiv 2403.03103, arXiv 2406.06504 (Theorem 5.1).
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import jax
import numpy as np
from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.actions.compact import check_finite_group
from equitangents.errors import InvalidTypeError
from equitangents.kernels.cost import CostedKernel, KernelCost, repeated
from equitangents.kernels.invariance import draws_noise, is_invariant, known_invariant
from equitangents.kernels.projected import GroupNodes, KernelOf, Sums, one_orbit, rows_of, summed, symmetric
from equitangents.kernels.result import KernelFunction, Kernels, check_result, result, result_bytes
from equitangents.kernels.rotations import sampled_for
from equitangents.precision import scope, working_dtype
from equitangents.structured import is_structured
from equitangents.validation import check_array

logger = logging.getLogger("equitangents")


@dataclass(frozen=True)
class OrbitAverage:
    """The invariant kernel of the network `base` averaged over `action`; `.kernel` as for a network."""

    base: KernelFunction
    action: Action

    @property
    def samples_rotations(self) -> bool:
        """Whether the base may sample rotations at a resolution chosen from the inputs of each call."""
        return bool(getattr(self.base, "samples_rotations", False))

    def sampled_for(self, x: ArrayLike) -> Self:
        """This average, with the base's sampling of rotations fixed at the resolution for inputs x."""
        return replace(self, base=sampled_for(self.base, lambda: x))

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Orbit-averaged NNGP and NTK, (N1, N2); `.notes` says whether one orbit was averaged or both.

        One orbit suffices if the base is known to be invariant by its structure, whatever the inputs.

        Raises MemoryLimitError if three copies cannot fit in memory: the sum, one term, and their sum.
        """
        x1, x2 = as_array("x1", x1), as_array("x2", x2)
        dtype, order = working_dtype(x1, x2), self.action.group.order
        results = result_bytes(len(x1), len(x1 if x2 is None else x2), dtype.itemsize)
        check_result(x1, x2, dtype, 2 * results)
        nodes = GroupNodes(np.full((order, 1, 1), 1 / order), lambda chosen, x: self.action.orbit(x, chosen))
        # Random draws of an input appear only in the kernel of one set of inputs.
        invariant = is_invariant(self.base, self.action, x1) and not (x2 is None and self.draws_noise)
        note = "mean over one orbit"
        if not invariant:
            note = "mean over both orbits: the base kernel is not known to be invariant"
            logger.info("orbit average over %s: %s", self.action.name, note)
        with scope(dtype):  # sums of float64 arrays of JAX are float64
            sums = (one_orbit if invariant else _both_orbits)(self.base.kernel, nodes, x1, x2)
            nngp, ntk = (k[:, :, 0, 0].astype(dtype) for k in (sums.nngp, sums.ntk))
        # A result of the user's own may hold kernels only.
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
        """Whether the average is known to be invariant: under its own action."""
        return action == self.action

    @property
    def draws_noise(self) -> bool:
        """Whether the base draws noise."""
        return draws_noise(self.base)


def _both_orbits(kernel: KernelOf, nodes: GroupNodes, x1: Any, x2: Any) -> Sums:
    """Σ_{g,h} w(g) w(h) k(g x1, h x2); x2 None: x1 with itself, exactly symmetric."""
    total: list[Any] = [0.0, 0.0]
    for g, ((weight,),) in enumerate(nodes.weighted):
        moved = nodes.move(np.array([g]), x1)[0]
        terms = []
        if x2 is not None:
            terms.append(summed(kernel, nodes, range(len(nodes)), moved, x2))
        else:
            term = kernel(moved, None)  # where an input has noise of its own, it is in here
            nngp, ntk = (weight * k[:, :, None, None] for k in (term.nngp, term.ntk))
            terms.append(Sums(nngp, ntk, term))
            if g:  # that of (h, g) is the transpose of that of (g, h)
                others = summed(kernel, nodes, range(g), moved, x1)
                terms.append(Sums(2 * others.nngp, 2 * others.ntk, term))
        for found in terms:
            total = [k + weight * added for k, added in zip(total, found[:2], strict=True)]
    if x2 is None:
        total = [symmetric(k) for k in total]
    return Sums(total[0], total[1], found.term)


def as_array(name: str, x: Any) -> Any:
    """Arrays, inputs with masks or graphs, and None unchanged; anything else converted to a checked array."""
    return x if x is None or isinstance(x, np.ndarray | jax.Array) or is_structured(x) else check_array(name, x)


def orbit_average(net: KernelFunction, action: Action) -> OrbitAverage:
    """The invariant kernel of any network and any action: (1/|G|) Σ_g Θ(x, ρ(g)x').

    If the base is not known to be invariant, both orbits are averaged. Networks determine this by their layers; other
    objects declare it by a method `invariant_under(action, input_shape) -> bool`, true for all inputs of this shape.
    """
    if not hasattr(net, "kernel"):
        raise InvalidTypeError("net", net, "a network, or anything with .kernel(x1, x2)")
    check_finite_group("action", action)
    if not isinstance(action, Action):
        raise InvalidTypeError("action", action, "an action of equitangents.actions")
    return OrbitAverage(net, action)
