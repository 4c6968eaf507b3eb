"""Vectors and symmetric tensors of molecules, such as dipoles and polarisabilities, learnt equivariantly.

y(m) = Σ_atoms ∫ ρ(g) N_z(g) dg: the network's features on rotations, turned back as the tensor turns. Its kernel is a
matrix, k(m, m') = Σ_ij ∫ κ_ij(Q) ρ(Q)ᵀ dQ, with k(Rm, m') = ρ(R) k(m, m') and k(m, Rm') = k(m, m') ρ(R)ᵀ. So turning a
molecule turns the prediction and its covariance, at every training time.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, MemoryLimitError, NotFittedError, ShapeError
from equitangents.inference.dynamics import Flow
from equitangents.inference.gaussian import TrainedProcess
from equitangents.inference.spectrum import decompose
from equitangents.molecules.cartesian import DEGREES, basis, components
from equitangents.molecules.kernel import Pairs
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals, Neighbourhoods
from equitangents.molecules.smooth_kernel import SmoothKernel

_MEMORY_LIMIT = 4 << 30
_ATOMS = 256  # rows at a time


class TensorPrediction(NamedTuple):
    """Tensors (N, 3) or (N, 3, 3); the covariance of one network around them, (N, 3, 3) or (N, 9, 9), where asked."""

    values: np.ndarray
    covariance: np.ndarray | None = None


def tensor_kernels(
    smooth: SmoothKernel, molecules1: Molecules, molecules2: Molecules | None, degree: int
) -> Float[np.ndarray, "2 n1 d n2 d"]:
    """NNGP and NTK of what turns as the harmonics of a degree, d = 2l + 1."""
    a = smooth.signals(molecules1)
    b = a if molecules2 is None else smooth.signals(molecules2)
    n1, n2, d = len(molecules1), len(molecules1 if molecules2 is None else molecules2), 2 * degree + 1
    if 16 * n1 * n2 * d * d > _MEMORY_LIMIT:
        raise MemoryLimitError(
            f"kernels of degree {degree} of {n1} and {n2} molecules take {16 * n1 * n2 * d * d / 2**30:.1f} GiB; "
            "take fewer molecules"
        )
    total = np.zeros((2, n1, n2, d, d))
    for first, second in _same(a, b, smooth.pairs):
        for start in range(0, len(first.signals), _ATOMS):
            here = slice(start, start + _ATOMS)
            values = smooth.steered(first.signals[here], second.signals, degree)
            left, right = _members(first.molecule[here], n1), _members(second.molecule, n2)
            total += np.einsum("na,vabij,mb->vnmij", left, values, right, optimize=True)
    total = np.moveaxis(total, 3, 2)
    return (total + np.moveaxis(total, (1, 2), (3, 4))) / 2 if molecules2 is None else total


class TensorRegressor:
    """The ensemble of infinitely wide equivariant networks trained on vectors or symmetric matrices of molecules.

    Args:
        net: A network on spherical signals with smooth nonlinearities, as of `MoleculeRegressor`; its group pooling is
            replaced by the equivariant readout.
        signals: What atoms see; None: `signals_for(net)`.
        pairs: Which atoms are compared, "same element" or "all".
        time: Training time of gradient flow; inf: to the end.
        learning_rate: η.
        ridge: Weight decay towards the initial weights, relative to the mean diagonal of the kernel.
        kernel: "ntk" or "nngp".
    """

    def __init__(
        self,
        net: Any,
        *,
        signals: AtomSignals | None = None,
        pairs: Pairs = "same element",
        time: float = math.inf,
        learning_rate: float = 1.0,
        ridge: float = 1e-6,
        kernel: Literal["ntk", "nngp"] = "ntk",
    ) -> None:
        self.net = net
        self.signals = signals
        self.pairs = pairs
        self.time = time
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.kernel = kernel

    def fit(self, molecules: Molecules, tensors: Any) -> TensorRegressor:
        """Train on vectors (N, 3) or symmetric matrices (N, 3, 3), in the frame of the positions."""
        if self.kernel not in ("ntk", "nngp"):
            raise InvalidArgumentError(f"kernel is {self.kernel!r}; expected 'ntk' or 'nngp'")
        y = np.asarray(tensors, np.float64)
        n = len(molecules)
        if y.shape not in ((n, 3), (n, 3, 3)):
            raise ShapeError(f"tensors has shape {y.shape}; expected {(n, 3)} or {(n, 3, 3)}")
        if not np.isfinite(y).all():
            raise InvalidArgumentError("tensors holds values that are not finite")
        if y.ndim == 3 and np.abs(y - y.swapaxes(1, 2)).max() > 1e-6 * np.abs(y).max():
            raise InvalidArgumentError("tensors are not symmetric matrices; antisymmetric parts have no degree here")
        self.rank_ = y.ndim - 1
        self.smooth_ = SmoothKernel.of(self.net, molecules, self.signals, self.pairs)
        self._train = molecules
        self._processes = {degree: self._solve(y, degree) for degree in DEGREES[self.rank_]}
        return self

    def predict(self, molecules: Molecules, *, time: float | None = None, return_cov: bool = False) -> TensorPrediction:
        """Tensors, and with `return_cov` the covariance of one network's components for each molecule."""
        if not hasattr(self, "_processes"):
            raise NotFittedError("this TensorRegressor is not fitted yet; call fit first")
        t = float(self.time if time is None else time)
        n = len(molecules)
        values, covariance = np.zeros((n, 3**self.rank_)), np.zeros((n, 3**self.rank_, 3**self.rank_))
        for degree, process in self._processes.items():
            d, turn = 2 * degree + 1, basis(self.rank_, degree)
            cross = tensor_kernels(self.smooth_, molecules, self._train, degree).reshape(2, n * d, -1)
            projection = process.project(self._trained(cross), cross[0] if return_cov else None)
            values += projection.mean(t).reshape(n, d) @ turn
            for i in range(n if return_cov else 0):
                prior = tensor_kernels(self.smooth_, molecules[[i]], None, degree)[0].reshape(d, d)
                rows = slice(i * d, (i + 1) * d)
                own = process.project(self._trained(cross)[rows], cross[0][rows]).covariance(prior, t)
                covariance[i] += turn.T @ own @ turn
        shape = (n, *(3,) * self.rank_)
        return TensorPrediction(values.reshape(shape), covariance if return_cov else None)

    def _solve(self, y: np.ndarray, degree: int) -> TrainedProcess:
        n, d = len(y), 2 * degree + 1
        both = tensor_kernels(self.smooth_, self._train, None, degree).reshape(2, n * d, n * d)
        spectrum = decompose(self._trained(both), ridge=self.ridge, name=f"kernel matrix of degree {degree}")
        prior = None if self.kernel == "nngp" else both[0]
        targets = components(y, degree).reshape(-1, 1)
        process = TrainedProcess(spectrum, targets, Flow(self.learning_rate, samples=n), prior=prior)
        process.check(float(self.time))
        return process

    def _trained(self, both: np.ndarray) -> np.ndarray:
        return both[1] if self.kernel == "ntk" else both[0]


def _same(a: Neighbourhoods, b: Neighbourhoods, pairs: Pairs) -> list[tuple[Neighbourhoods, Neighbourhoods]]:
    if pairs == "all":
        return [(a, b)]
    shared = np.intersect1d(a.element, b.element)
    return [tuple(Neighbourhoods(*(v[f.element == z] for v in f)) for f in (a, b)) for z in shared]  # type: ignore[misc]


def _members(molecule: np.ndarray, count: int) -> Float[np.ndarray, "molecules atoms"]:
    """1 where an atom belongs to a molecule."""
    return (molecule == np.arange(count)[:, None]).astype(float)
