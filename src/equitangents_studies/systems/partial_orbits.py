"""What is learnt of a symmetry that only some classes show, while others are seen in part of their orbits.

Perin & Deny (arXiv 2412.11521): does a network that sees some classes in all orientations classify the others in
orientations in which it never saw them? At infinite width the answer is in closed form, irrep by irrep.

Let K be the kernel matrix of all copies ρ(g) x_i, ridge included, and M the copies that are not trained on. With any
targets Y on M, the prediction f there is f_M = Y_M − ((K⁻¹)_MM)⁻¹ (K⁻¹ Y)_M, and it is the one of the copies that are
seen. K⁻¹ is a function of g⁻¹h like K: its block of each irrep is the inverse of K's. Of one missing copy this reads
    Y − f = (Θ̂₀⁻¹ y)_i / ((1/|G|) Σ_ρ d_ρ tr (Θ̂_ρ⁻¹)_ii) :
how far its class stands out where orientations are averaged, over how far an orientation stands apart from the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError, ShapeError
from equitangents.extending import (
    ActionLike,
    Elements,
    Numbers,
    Targets,
    check_array,
    check_same_length,
    is_whole,
)
from equitangents.groups import Group
from equitangents.inference import GroupFourier, fourier_irreps
from equitangents.kernels import KernelFunction
from equitangents.solvers import solve
from equitangents.statistics import Estimate, mean_interval
from equitangents_studies.systems.conventions import Step, check_ridge, lines_of, model_name, steps
from equitangents_studies.systems.curves import centred_classes
from equitangents_studies.systems.grams import GroupGrams, KernelName, finite_action, group_grams, irrep_blocks


@dataclass(frozen=True, eq=False)
class WholeOrbits:
    """N inputs in all |G| orientations with invariant targets (N, K); `ridge` is added to the kernel as it is."""

    grams: GroupGrams
    targets: Float[np.ndarray, "n outputs"]
    ridge: float

    @cached_property
    def inverse(self) -> Float[np.ndarray, "n n order"]:
        """(K⁻¹)_(g,i)(h,j) as a function of i, j and g⁻¹h, by the inverse of each irrep's block."""
        irreps = fourier_irreps(self.grams.group)
        n, parts = len(self.targets), []
        for irrep, block in zip(irreps, irrep_blocks(self.grams, irreps), strict=True):
            d = irrep.dimension
            block[np.diag_indices(n * d)] += self.ridge
            try:  # Hermitian, which `solvers` do not take
                inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(block, lower=True), np.eye(n * d))
            except np.linalg.LinAlgError:
                raise NotPositiveDefiniteError(
                    f"the kernel matrix of {n}·{self.grams.group.order} copies is not positive definite in the irrep "
                    f"of dimension {d}; take a larger ridge"
                ) from None
            parts.append(inverse.reshape(n, d, n, d).transpose(0, 2, 1, 3))
        return GroupFourier(irreps).inverse(parts)

    @cached_property
    def pull(self) -> Float[np.ndarray, "n outputs"]:
        """K⁻¹ Y, the same at every orientation: Θ̂₀⁻¹ y."""
        return self.inverse.sum(axis=2) @ self.targets

    def one_missing(self) -> Float[np.ndarray, "n outputs"]:
        """Predictions at any orientation of each input, were it the only copy that is not trained on."""
        density = np.diagonal(self.inverse[:, :, self.grams.group.identity])
        return self.targets - self.pull / density[:, None]

    def surprise(self, elements: np.ndarray, inputs: np.ndarray) -> Float[np.ndarray, "missing outputs"]:
        """((K⁻¹)_MM)⁻¹ (K⁻¹ Y)_M: targets minus predictions."""
        group = self.grams.group
        relative = group.compose(group.inverses[elements][:, None], elements[None, :])
        inner = self.inverse[inputs[:, None], inputs[None, :], relative]
        return _solved((inner + inner.T) / 2, self.pull[inputs])

    def weights(self, elements: np.ndarray, inputs: np.ndarray) -> Float[np.ndarray, "order n outputs"]:
        """α, with which f(x) = Σ_gi Θ(x, ρ(g)x_i) α_gi: that of the copies that are seen, 0 at those that are not."""
        group = self.grams.group
        e = np.zeros((group.order, *self.targets.shape))
        e[elements, inputs] = self.surprise(elements, inputs)
        found = np.broadcast_to(self.pull, e.shape).copy()
        everything = np.arange(group.order)
        for h in np.unique(elements):
            relative = group.compose(group.inverses[everything], h)
            found -= np.einsum("ijg,jk->gik", self.inverse[:, :, relative], e[h], optimize=True)
        return found


def predictions(
    grams: GroupGrams, rows: slice, weights: Float[np.ndarray, "order n outputs"]
) -> Float[np.ndarray, "order rows outputs"]:
    """f(ρ(g) x) = Σ_hj Θ_{g⁻¹h}(x, x_j) α_hj for some rows of the kernels, at every g."""
    group = grams.group
    found = np.zeros((group.order, len(range(len(grams.of(group.identity)))[rows]), weights.shape[2]))
    for g in range(group.order):
        for h in range(group.order):
            found[g] += grams.of(int(group.compose(group.inverse(g), h)))[rows].astype(np.float64) @ weights[h]
    return found


def exact_weights(
    grams: GroupGrams,
    targets: Float[np.ndarray, "n outputs"],
    ridge: float,
    elements: np.ndarray,
    inputs: np.ndarray,
) -> Float[np.ndarray, "order n outputs"]:
    """α by solving for the copies that are seen, without irreps: 0 at the copies (elements[m], inputs[m])."""
    group, n = grams.group, len(targets)
    missing = np.zeros((group.order, n), bool)
    missing[elements, inputs] = True
    g, i = np.nonzero(~missing)
    K = np.empty((len(g), len(g)))
    for a in range(group.order):
        for b in range(group.order):
            rows, columns = np.flatnonzero(g == a), np.flatnonzero(g == b)
            block = grams.of(int(group.compose(group.inverse(a), b)))
            K[np.ix_(rows, columns)] = block[np.ix_(i[rows], i[columns])]
    K[np.diag_indices(len(K))] += ridge
    found = np.zeros((group.order, *targets.shape))
    found[g, i] = _solved((K + K.T) / 2, targets[i])
    return found


def _solved(K: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """K⁻¹ times the targets; NotPositiveDefiniteError says of how many copies K is."""
    try:
        return solve(K, targets, solver="cholesky").coefficients
    except NotPositiveDefiniteError:
        raise NotPositiveDefiniteError(
            f"the kernel matrix of {len(K)} copies is not positive definite; take a larger ridge"
        ) from None


@dataclass(frozen=True, eq=False, repr=False)
class PartialOrbits:
    """Outputs (|G|, N, K) at every orientation of every training input, from irreps and from an exact solve.

    `seen` (|G|, N) says which copies were trained on, `partial` (N,) which inputs are of classes seen in part. `test`
    and `test_partial` are the outputs at further inputs (|G|, T, K), from irreps, and which of those are of such
    classes; `one_missing` (N, K) the outputs at an orientation that alone is missing. Targets are numbers of `classes`.
    """

    model: str
    group: str
    classes: np.ndarray
    labels: Int[np.ndarray, " n"]
    seen: np.ndarray
    partial: np.ndarray
    irreps: Float[np.ndarray, "order n outputs"]
    exact: Float[np.ndarray, "order n outputs"]
    one_missing: Float[np.ndarray, "n outputs"]
    test: Float[np.ndarray, "order test outputs"] | None = None
    test_labels: Int[np.ndarray, " test"] | None = None
    test_partial: np.ndarray | None = None
    confidence: float = 0.95

    @property
    def largest_difference(self) -> float:
        """Between irreps and the exact solve, over the largest output."""
        return float(np.abs(self.irreps - self.exact).max() / np.abs(self.exact).max())

    @property
    def unseen_accuracy(self) -> Estimate:
        """Share of right classes at the unseen orientations of partly seen training inputs; interval over inputs."""
        right = self.irreps.argmax(axis=2) == self.labels
        unseen = ~self.seen[:, self.partial]
        return self._mean((right[:, self.partial] & unseen).sum(axis=0) / unseen.sum(axis=0))

    @property
    def one_missing_accuracy(self) -> Estimate:
        """Accuracy where only one orientation of one input is not trained on, partly seen classes alone."""
        right = self.one_missing.argmax(axis=1) == self.labels
        return self._mean(right[self.partial].astype(float))

    def test_accuracy(self, *, partial: bool, seen: bool) -> Estimate:
        """Share of right classes of further inputs, of classes seen in part or not, at orientations in which the partly
        seen classes were seen, or were not; interval over inputs.
        """
        if self.test is None or self.test_partial is None:
            raise InvalidArgumentError("test is None: no further inputs were given to predict")
        elements = self.seen[:, self.partial][:, 0]
        right = self.test.argmax(axis=2) == self.test_labels
        return self._mean(right[elements == seen][:, self.test_partial == partial].mean(axis=0))

    @property
    def table(self) -> dict[str, list[Any]]:
        """One row a group of inputs: share of right classes, and its interval."""
        rows = [("training, unseen orientations", self.unseen_accuracy)]
        rows.append(("training, only one orientation of one input missing", self.one_missing_accuracy))
        if self.test is not None:
            rows += [
                (
                    f"further inputs of classes seen {'in part' if part else 'whole'}, orientations "
                    f"{'' if seen else 'un'}seen",
                    self.test_accuracy(partial=part, seen=seen),
                )
                for part in (True, False)
                for seen in (True, False)
            ]
        return {
            "inputs": [name for name, _ in rows],
            "accuracy": [e.value for _, e in rows],
            "low": [e.low for _, e in rows],
            "high": [e.high for _, e in rows],
        }

    def _mean(self, values: np.ndarray) -> Estimate:
        if not len(values):
            return Estimate(np.nan, np.nan, np.nan, self.confidence)
        return Estimate(
            float(values.mean()), *mean_interval(values, confidence=self.confidence, bounds=(0.0, 1.0)), self.confidence
        )

    def __repr__(self) -> str:
        return lines_of(self.table)


def partial_orbits(
    net: KernelFunction,
    group: Group | ActionLike,
    x: Numbers,
    y: Targets,
    seen: int | Elements,
    *,
    partial: Targets | None = None,
    test: tuple[Numbers, Targets] | None = None,
    kernel: KernelName = "ntk",
    ridge: float = 1e-6,
    confidence: float = 0.95,
    progress: bool | Step = False,
) -> PartialOrbits:
    """Train on some classes in all orientations, on others in some, and predict all orientations of all.

    Args:
        net: an infinite network, or anything with `kernel` that the group leaves invariant (checked on a sample).
        group: an exact action of any finite group, or its name.
        x: inputs (N, …), each of which stands for its orbit.
        y: their classes (N,).
        seen: elements in which the partly seen classes are trained on: a list of them, or their number m, the first m.
        partial: the classes that are seen in part; None: the second half of them, sorted.
        test: (x, y) of further inputs to predict in all orientations.
        ridge: relative to the mean diagonal of the kernel.

    The predictor in the irrep basis needs one inverse for each irrep and one solve for the missing copies; the exact
    one solves for all copies that are seen. They agree to rounding.

    Source: Perin & Deny 2025, arXiv 2412.11521, for one missing copy; the matrix form for any number is the same
    algebra.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(2))
    >>> x = np.random.default_rng(0).normal(size=(6, 4, 4, 1))
    >>> found = partial_orbits(net, "C4", x, [0, 0, 0, 1, 1, 1], seen=2)
    >>> found.irreps.shape, bool(found.largest_difference < 1e-8), int(found.seen.sum())
    ((4, 6, 2), True, 18)
    """
    x = np.asarray(check_array("x", x, min_rank=2))
    action = finite_action(group, x)
    order = action.group.order
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    check_same_length("x", x, "y", labels)
    if labels.ndim != 1 or len(classes) < 2:
        raise ShapeError("y", (*np.shape(y),), ("N",), "with 2 classes or more")
    chosen = classes[len(classes) // 2 :] if partial is None else np.unique(np.atleast_1d(partial))
    if not np.isin(chosen, classes).all() or len(chosen) in (0, len(classes)):
        raise InvalidArgumentError(
            "partial", chosen.tolist(), "some of the classes, but not all", str(classes.tolist())
        )
    elements = _elements(seen, order)
    in_part = np.isin(classes, chosen)
    inputs = np.concatenate([x, _test_inputs(x, test)]).astype(x.dtype) if test is not None else x
    targets = centred_classes(labels, len(classes))
    copies = np.ones((order, len(x)), bool)
    copies[np.ix_(~np.isin(np.arange(order), elements), in_part[labels])] = False
    g, i = np.nonzero(~copies)
    with steps("Partial orbits", progress) as step:
        grams = group_grams(net, action, inputs, kernel, lambda a, b: step(a / b, 3), len(x))
        delta = check_ridge(ridge) * float(np.diagonal(grams.of(action.group.identity)).mean(dtype=np.float64))
        square = type(grams)(grams.group, {h: m[: len(x)] for h, m in grams.matrices.items()})
        whole = WholeOrbits(square, targets, delta)
        weights = whole.weights(g, i)
        outputs = predictions(grams, slice(None), weights)
        step(2, 3)
        exact = predictions(square, slice(None), exact_weights(square, targets, delta, g, i))
        step(3, 3)
    tested = None if test is None else _test_labels(classes, test[1], len(inputs) - len(x))
    return PartialOrbits(
        model=model_name(net),
        group=action.group.name,
        classes=classes,
        labels=labels,
        seen=copies,
        partial=in_part[labels],
        irreps=outputs[:, : len(x)],
        exact=exact,
        one_missing=whole.one_missing(),
        test=None if tested is None else outputs[:, len(x) :],
        test_labels=tested,
        test_partial=None if tested is None else in_part[tested],
        confidence=confidence,
    )


def _elements(seen: int | Elements, order: int) -> np.ndarray:
    """The elements in which partly seen classes are seen: some of the group, but not all."""
    given = np.arange(seen) if is_whole(seen) else np.unique(np.atleast_1d(seen))
    if given.dtype.kind not in "iu" or not 0 < len(given) < order or given.min() < 0 or given.max() >= order:
        raise InvalidArgumentError("seen", seen, range(order), "some, but not all, of the group's elements")
    return given


def _test_inputs(x: np.ndarray, test: tuple[Numbers, Targets]) -> np.ndarray:
    inputs = np.asarray(check_array("test", test[0], min_rank=2))
    if inputs.shape[1:] != x.shape[1:]:
        raise ShapeError("test", inputs.shape, ("N", *x.shape[1:]))
    return inputs


def _test_labels(classes: np.ndarray, y: Targets, count: int) -> np.ndarray:
    labels = np.asarray(y)
    if labels.shape != (count,):
        raise ShapeError("test[1]", labels.shape, (count,))
    if not np.isin(labels, classes).all():
        raise InvalidArgumentError("test[1]", np.setdiff1d(labels, classes)[0], classes.tolist(), verb="holds")
    return np.searchsorted(classes, labels)
