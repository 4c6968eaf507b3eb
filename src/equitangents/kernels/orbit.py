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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.actions.compact import check_finite_group
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.representations import Representation, RepresentationLike, as_representation
from equitangents.kernels.cost import CostedKernel, KernelCost, check_dtype, repeated
from equitangents.kernels.fields import check_result, result_bytes
from equitangents.kernels.invariance import draws_noise, is_invariant
from equitangents.kernels.projected import Nodes, Sums, all_pairs, diagonal
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.kernels.rotations import sampled_for
from equitangents.kernels.runs.scaling import result
from equitangents.kernels.translations import translation_mean
from equitangents.precision import is_traced, scope, working_dtype
from equitangents.structured import is_structured
from equitangents.validation import check_array

logger = logging.getLogger("equitangents")

_SAMPLE = 4  # inputs whose shape and precision decide how translations are averaged
_BLOCK = 32  # inputs below which a symmetric matrix is computed in full


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
    check_finite_group("action", action)
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
