"""Type aliases used across the package."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import numpy.typing as npt

from equitangents._aliases import (  # noqa: F401  imported from here with those of arrays
    AnyAction,
    AnyModel,
    DataRows,
    Element,
    Elements,
    FileName,
    InputShape,
    KernelName,
    Network,
    Params,
    Tree,
)

ArrayLike = np.ndarray | jax.Array
Numbers = npt.ArrayLike | jax.Array  # what NumPy makes an array of: also lists of numbers, a number
Targets = npt.ArrayLike | jax.Array  # classes (whole numbers, texts, truth values), (N,); or numbers to regress on
MeanStd = tuple[np.ndarray, np.ndarray]  # the mean, and the standard deviation or covariance
Times = float | Sequence[float] | np.ndarray  # one training time, or several
Rows = int | slice | Sequence[int] | np.ndarray  # an index of rows, as for NumPy
Key = int | jax.Array  # a seed, or a key of jax.random
DType = np.dtype | type | str  # of numbers, by name or as NumPy has it
