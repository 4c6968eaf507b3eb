"""Type aliases that load nothing, for modules that light commands import; `_types` has those of arrays, too."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

FileName = str | PathLike[str]
KernelName = Literal["ntk", "nngp"]  # which kernel of a network, wherever an argument is called `kernel`
Params = Any  # a pytree of arrays, one entry a layer
InputShape = tuple[int, ...]  # (*positions, channels), without the batch axis
Network = Any  # what `DeepEnsemble` takes: a `FiniteNetwork`, a pair (init, apply), a module of Flax, NNX or Equinox
AnyModel = (
    Any  # what an audit asks: a function of a batch, a module, a file, an estimator, an ensemble, several of them
)
Element = Any  # of a group: a number where they are listed, else a rotation matrix, a permutation, (turn, shift) …
Elements = Any  # several: a sequence of elements, or an array with one of them in each row
AnyAction = Any  # an action of `equitangents.actions`, or what a function says it takes in its place: a name, a map
Tree = Any  # arrays of numbers, by themselves or in tuples, lists and dictionaries: what JAX calls a pytree
DataRows = Any  # of a training problem: inputs, an array (N, …), or points of fields, which are indexed as one
