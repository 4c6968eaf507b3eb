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
Network = Any  # an `nn.Sequential`, a pair of functions (init, apply), or a module of Flax, NNX or Equinox
Element = Any  # of a group: a number where they are listed, else a rotation matrix, a permutation, (turn, shift) …
Elements = Any  # several: a sequence of elements, or an array with one of them in each row
GroupLike = Any  # a group of `equitangents.groups`, finite or compact
AnyAction = Any  # an action of `equitangents.actions`, or what a function says it takes in its place: a name, a map
ExecutorLike = Any  # a number of processes, an executor of `concurrent.futures`, a Dask client or its address
Tree = Any  # arrays of numbers, by themselves or in tuples, lists and dictionaries: what JAX calls a pytree
