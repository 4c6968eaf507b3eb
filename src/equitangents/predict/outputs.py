"""Array layout and precision of outputs and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.inference import decompose
from equitangents.inference.spectrum import Spectrum
from equitangents.validation import check_array

_ROUNDED = 1e3  # units in the last place of the largest entry, by which entries ij and ji may differ


class Gaussian(NamedTuple):
    """Mean and covariance of outputs."""

    mean: Tree
    covariance: Tree


def gaussian(moments: tuple[Tree, ...]) -> Tree:
    """The mean, or the mean and the covariance."""
    return Gaussian(*moments) if len(moments) == 2 else moments[0]


@dataclass(frozen=True)
class OutputLayout:
    """Layout of outputs y, (N, …), and of Θ, which has two of each axis that is not `traced`, (N, N, …)."""

    shape: tuple[int, ...]
    traced: tuple[int, ...]

    @classmethod
    def of(cls, y: Tree, trace_axes: int | Sequence[int]) -> OutputLayout:
        """The layout of targets with these traced axes."""
        rank = np.ndim(y)
        axes = (trace_axes,) if isinstance(trace_axes, int) else tuple(trace_axes)
        if any(not -rank <= a < rank for a in axes):
            raise InvalidArgumentError("trace_axes", trace_axes, f"axes of y_train, which has {rank}")
        return cls(tuple(np.shape(y)), tuple(sorted({a % rank for a in axes})))

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that appear in kernels."""
        return tuple(a for a in range(len(self.shape)) if a not in self.traced)

    def check(self, name: str, kernel: Tree, *, train: bool) -> None:
        """Raise ShapeError unless a kernel has two of each axis, with y_train's sizes."""
        sizes = [self.shape[a] for a in self.kept]
        found = tuple(np.shape(kernel))
        fits = len(found) == 2 * len(sizes) and list(found[1::2]) == sizes and (not train or list(found[::2]) == sizes)
        if not fits:
            wanted = tuple(m for n in sizes for m in (n if train else "…", n))
            raise ShapeError(name, found, wanted, f"y_train has shape {self.shape}, with trace_axes={self.traced}")

    def matrix(self, kernel: np.ndarray) -> np.ndarray:
        """The kernel as a matrix (rows, columns), from the first and the second of each pair of axes."""
        order = [*range(0, kernel.ndim, 2), *range(1, kernel.ndim, 2)]
        rows = int(np.prod(kernel.shape[::2], dtype=np.int64))
        return kernel.transpose(order).reshape((rows, -1))

    def rows(self, values: np.ndarray) -> np.ndarray:
        """Outputs as (rows, traced)."""
        moved = values.transpose((*self.kept, *self.traced))
        return moved.reshape((int(np.prod([values.shape[a] for a in self.kept], dtype=np.int64)), -1))

    def outputs(self, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Outputs of shape `shape` from rows, the inverse of `rows`."""
        order = (*self.kept, *self.traced)
        return rows.reshape([shape[a] for a in order]).transpose(np.argsort(order))

    def test_shape(self, cross: Tree) -> tuple[int, ...]:
        """The shape of outputs at test inputs, from their kernel with the training inputs."""
        shape = list(self.shape)
        for axis, size in zip(self.kept, np.shape(cross)[::2], strict=True):
            shape[axis] = size
        return tuple(shape)

    def moments(self, cross: Tree, covariance: bool) -> list[tuple[int, ...]]:
        """Shapes of a mean, and of a covariance if requested, at this kernel's test inputs (None: training)."""
        shape = self.shape if cross is None else self.test_shape(cross)
        return [shape, tuple(n for a in self.kept for n in (shape[a], shape[a]))][: 1 + covariance]

    def covariance(self, matrix: np.ndarray, like: tuple[int, ...]) -> np.ndarray:
        """A covariance matrix (rows, rows) reshaped to the kernels' axes, with the first sizes of a kernel."""
        sizes = [like[a] for a in self.kept]
        count = len(sizes)
        order = [axis for i in range(count) for axis in (i, count + i)]
        return matrix.reshape((*sizes, *sizes)).transpose(order)


def targets(y_train: Tree) -> Tree:
    """Targets as an array of numbers, (N, …)."""
    return y_train if precision.is_traced(y_train) else np.asarray(check_array("y_train", y_train), np.float64)


def checked(name: str, kernel: Tree) -> Tree:
    """A kernel as an array of numbers."""
    return kernel if precision.is_traced(kernel) else np.asarray(check_array(name, kernel, allow_empty=True))


def decomposed(matrix: np.ndarray, dtype: Tree, diag_reg: float, absolute: bool) -> Spectrum:
    """Eigendecomposition of a training kernel, which may be asymmetric by rounding in its precision."""
    matrix = symmetric(matrix, dtype)
    unit = np.trace(matrix) / len(matrix)
    ridge = diag_reg / unit if absolute and diag_reg else diag_reg
    return decompose(matrix, ridge=ridge, precision=dtype if dtype in (np.float32, np.float64) else np.float64)


def symmetric(matrix: np.ndarray, dtype: Tree) -> np.ndarray:
    """The symmetrised matrix if it is asymmetric by rounding in `dtype`; otherwise unchanged."""
    matrix = np.asarray(matrix, np.float64)
    if matrix.shape[0] != matrix.shape[1] or dtype != np.float32:
        return matrix
    gap, most = np.abs(matrix - matrix.T).max(initial=0.0), np.abs(matrix).max(initial=0.0)
    return (matrix + matrix.T) / 2 if gap <= _ROUNDED * np.finfo(np.float32).eps * most else matrix


def precision_of(example: Tree) -> Tree:
    """The dtype of results: that of the kernels if single or double precision, else double."""
    dtype = getattr(getattr(example, "x", example), "dtype", None)
    return np.dtype(dtype) if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def through(
    run: Callable[..., tuple[np.ndarray, ...]], shapes: Sequence[tuple[int, ...]], example: Tree, *arguments: Tree
) -> Tree:
    """run(*arguments) in NumPy, also with traced arguments; results have these shapes and the type of `example`.

    `None` in `arguments` is passed on.
    """
    dtype = precision_of(example)
    if not any(precision.is_traced(v) for v in arguments):
        found = run(*arguments)
        jaxed = isinstance(getattr(example, "x", example), jax.Array)
        with precision.scope(dtype):
            return tuple(jnp.asarray(v.astype(dtype)) if jaxed else v.astype(dtype) for v in found)

    # Known values stay in their own precision; only traced ones go through the program.
    traced = [precision.is_traced(v) for v in arguments]
    dtype = jax.dtypes.canonicalize_dtype(dtype)

    def called(*arrays: Tree) -> tuple[np.ndarray, ...]:
        held = iter(arrays)
        found = run(*(np.asarray(next(held)) if t else v for v, t in zip(arguments, traced, strict=True)))
        return tuple(v.astype(dtype) for v in found)

    wanted = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)
    arrays = [v for v, t in zip(arguments, traced, strict=True) if t]
    return jax.pure_callback(called, wanted, *arrays, vmap_method="sequential")
