"""Type aliases used across the package."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

ArrayLike = np.ndarray | jax.Array
Numbers = npt.ArrayLike | jax.Array  # an array, or what NumPy makes one of: lists of numbers, a single number
Times = float | Sequence[float] | np.ndarray  # one training time, or several
Key = int | jax.Array  # a seed, or a key of jax.random
DType = np.dtype | type | str  # of numbers, by name or as NumPy has it
FileName = str | PathLike[str]
Params = Any  # a pytree of arrays, one entry a layer
InputShape = tuple[int, ...]  # (*positions, channels), without the batch axis
