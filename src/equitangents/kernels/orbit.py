"""Orbit averages: the kernel of the invariant network, from any network and any action of a finite group.

Θ_inv(x, x') = (1/|G|) Σ_g Θ(x, ρ(g)x') where Θ(ρ(g)x, ρ(g)x') = Θ(x, x'); without that, the mean over both orbits,
(1/|G|²) Σ_{g,h} Θ(ρ(g)x, ρ(h)x').   Source: arXiv 2403.03103, arXiv 2406.06504 (Theorem 5.1).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.actions.compact import check_finite_group
from equitangents.errors import InvalidTypeError
from equitangents.kernels.cost import CostedKernel, KernelCost, check_dtype, repeated
from equitangents.kernels.fields import check_result, result_bytes
from equitangents.kernels.invariance import draws_noise, is_invariant
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.kernels.rotations.resolution import sampled_for
from equitangents.kernels.translations import translation_mean
from equitangents.precision import is_traced, scope, working_dtype
from equitangents.structured import is_structured
from equitangents.validation import check_array

logger = logging.getLogger("equitangents")

_SAMPLE = 4  # inputs whose shape and precision decide how translations are averaged
_BLOCK = 32  # inputs below which a symmetric matrix is computed in full


@dataclass(frozen=True)
class OrbitAverage:
    """The invariant kernel made from `base` by `action`; it has `.kernel` as a network has."""

    base: KernelFunction
    action: Action

    @property
    def samples_rotations(self) -> bool:
        """Whether the base may sample rotations as finely as the inputs of each call ask for."""
        return bool(getattr(self.base, "samples_rotations", False))

    def sampled_for(self, x: ArrayLike) -> OrbitAverage:
        """This average, its base sampled as inputs x ask for."""
        return replace(self, base=sampled_for(self.base, lambda: x))

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Orbit-averaged NNGP and NTK, (N1, N2); `.notes` says whether one orbit was averaged or both, and how.

        One orbit suffices where the base is known to be invariant, by what it says of itself, whatever the inputs.

        Raises MemoryLimitError where they cannot fit in memory three times: the sum, one term, and both added.
        """
        x1, x2 = as_array("x1", x1), as_array("x2", x2)
        dtype = working_dtype(x1, x2)
        results = result_bytes(len(x1), len(x1 if x2 is None else x2), dtype.itemsize)
        check_result(x1, x2, dtype, 2 * results)
        with scope(dtype):  # sums of float64 arrays of JAX are float64
            return self._kernel(x1, x2)

    def _kernel(self, x1: Any, x2: Any) -> Kernels:
        traced = is_traced(x1) or is_traced(x2)
        if not self._one_orbit_suffices(x1):
            return self._both_orbits(x1, x2)
        base, elements = (self.base, range(self.action.group.order)) if traced else self._parts(x1)
        note = "mean over one orbit"
        if x2 is not None:
            return self._mean(self._terms(base, elements, x1, x2), len(elements), note)
        k = self._mean(self._symmetric_terms(base, elements, x1), len(elements), note)
        return _with(k, lambda a: (a + a.T) / 2)

    def kernel_cost(
        self, input_shape: tuple[int, ...], n1: int, n2: int | None = None, dtype: DTypeLike = "float32"
    ) -> KernelCost:
        """Cost of `kernel` for n1 and n2 inputs of `input_shape` (None: n1 with themselves)."""
        x = _random(jax.ShapeDtypeStruct((_SAMPLE, *input_shape), check_dtype(dtype)))
        order, columns = self.action.group.order, n1 if n2 is None else n2
        costed = cast(CostedKernel, self.base)
        if not is_invariant(self.base, self.action, x):
            one = costed.kernel_cost(input_shape, n1, columns, dtype)
            if n2 is not None:
                return repeated([(one, order**2)], x[0].nbytes * columns)
            alone = costed.kernel_cost(input_shape, n1, None, dtype)
            return repeated([(alone, order), (one, order * (order - 1) // 2)], x[0].nbytes * columns)
        base, elements = self._parts(x)
        whole = base.kernel_cost(input_shape, n1, columns, dtype)
        if n2 is not None:
            return repeated([(whole, len(elements))], x[0].nbytes * columns)
        inverses = self.action.group.inverses[list(elements)]
        once = int((inverses == elements).sum()) - 1  # elements that are their own inverse, without the identity
        pairs = int((inverses > elements).sum())
        shared = (whole, once * _symmetric_share(n1) + pairs)
        return repeated([(base.kernel_cost(input_shape, n1, None, dtype), 1), shared], x[0].nbytes * columns)

    def _parts(self, x: Any) -> tuple[Any, range]:
        """(what is averaged, elements over which): of MLPs the mean over translations comes at once, by FFT."""
        order = self.action.group.order
        averaged = translation_mean(self.base, self.action, x)
        if averaged is None:
            return self.base, range(order)
        return averaged, range(0, order, math.prod(averaged.torus))

    def _terms(self, base: KernelFunction, elements: range, x1: Any, x2: Any) -> Iterator[Kernels]:
        """Θ(x1, ρ(g) x2) for every g."""
        for g in elements:
            yield base.kernel(x1, self.action(g, x2))

    def _symmetric_terms(self, base: KernelFunction, elements: range, x: Any) -> Iterator[Kernels]:
        """The sums for x with itself, at half the cost: the term of g⁻¹ is the transpose of that of g."""
        group = self.action.group
        for g in elements:
            inverse = group.inverse(g)
            if g == group.identity:
                yield base.kernel(x)
            elif g == inverse:
                yield _symmetric_kernel(base, x, self.action(g, x))
            elif g < inverse:
                k = base.kernel(x, self.action(g, x))
                yield k
                yield _transposed(k)

    def _both_orbits(self, x1: Any, x2: Any) -> Kernels:
        order = self.action.group.order
        orbit, note = range(order), "mean over both orbits: the base kernel is not known to be invariant"
        if x2 is not None:
            terms = (term for g in orbit for term in self._terms(self.base, orbit, self.action(g, x1), x2))
            return self._mean(terms, order**2, note)
        k = self._mean(self._symmetric_pairs(x1), order**2, note)
        return _with(k, lambda a: (a + a.T) / 2)

    def _symmetric_pairs(self, x: Any) -> Iterator[Kernels]:
        """All Θ(ρ(g) x, ρ(h) x): that of (h, g) is the transpose of that of (g, h)."""
        for g in range(self.action.group.order):
            moved = self.action(g, x)
            yield self.base.kernel(moved)
            for h in range(g):
                k = self.base.kernel(moved, self.action(h, x))
                yield k
                yield _transposed(k)

    def _mean(self, terms: Iterator[Kernels], count: int, note: str) -> Kernels:
        total = next(terms)
        for k in terms:
            total = Kernels(total.nngp + k.nngp, total.ntk + k.ntk, **_facts(total))
            del k  # before the next one is computed
        facts = _facts(total)
        facts["notes"] = (*facts.get("notes", ()), note)
        return Kernels(total.nngp / count, total.ntk / count, **facts)

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether it is known to be invariant: under the action that it is an average over."""
        return action == self.action

    @property
    def draws_noise(self) -> bool:
        """As what is averaged."""
        return draws_noise(self.base)

    def _one_orbit_suffices(self, x: Any) -> bool:
        invariant = is_invariant(self.base, self.action, x)
        if not invariant:
            logger.info(
                "the kernel is not known to be invariant under %s: averaging over both orbits", self.action.name
            )
        return invariant


def as_array(name: str, x: Any) -> Any:
    """Arrays, inputs with masks or graphs, and None unchanged; anything else as a checked array."""
    return x if x is None or isinstance(x, np.ndarray | jax.Array) or is_structured(x) else check_array(name, x)


def _random(x: Any) -> np.ndarray:
    """Inputs in the place of traced ones, whose values are not known."""
    return np.random.default_rng(0).standard_normal((_SAMPLE, *x.shape[1:])).astype(working_dtype(x))


def _symmetric_kernel(base: KernelFunction, x: Any, moved: Any) -> Kernels:
    """Θ(x, ρ(g) x) for g = g⁻¹, a symmetric matrix: of the blocks off the diagonal one of each two is computed."""
    n = len(x)
    if n < 2 * _BLOCK:
        return base.kernel(x, moved)
    half = n // 2
    a, b = _symmetric_kernel(base, x[:half], moved[:half]), _symmetric_kernel(base, x[half:], moved[half:])
    c = base.kernel(x[:half], moved[half:])
    join = np.block if isinstance(a.nngp, np.ndarray) else jnp.block
    nngp, ntk = ([[getattr(a, k), getattr(c, k)], [getattr(c, k).T, getattr(b, k)]] for k in ("nngp", "ntk"))
    return Kernels(join(nngp), join(ntk), **_facts(c))


def _symmetric_share(n: int) -> float:
    """The share of n² pairs that `_symmetric_kernel` computes."""
    if n < 2 * _BLOCK:
        return 1.0
    half = n // 2
    blocks = (_symmetric_share(m) * m**2 for m in (half, n - half))
    return (sum(blocks) + half * (n - half)) / n**2


def _transposed(k: Kernels) -> Kernels:
    return _with(k, lambda a: a.T)


def _with(k: Kernels, change: Callable[[Any], Any]) -> Kernels:
    return Kernels(change(k.nngp), change(k.ntk), **_facts(k))


def _facts(k: Any) -> dict[str, Any]:
    """What a result says beside its kernels; one of the user's own need not say anything."""
    return {f.name: getattr(k, f.name) for f in fields(Kernels)[2:] if hasattr(k, f.name)}


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
