"""Types that load no library, for modules that light commands import: aliases, and protocols of users' objects.

`_types` has these and the aliases of arrays.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import jax

FileName = str | PathLike[str]
KernelName = Literal["ntk", "nngp"]  # which kernel of a network, wherever an argument is called `kernel`
Params = Any  # a pytree of arrays, one entry a layer
InputShape = tuple[int, ...]  # (*positions, channels), without the batch axis
Network = Any  # what `DeepEnsemble` takes: a `FiniteNetwork`, a pair (init, apply), a module of Flax, NNX or Equinox
AnyModel = Any  # what an audit takes: a function of a batch, a module, a file, an estimator, an ensemble, a list
Element = Any  # of a group: a number in finite groups, else a rotation matrix, (rotation, shift) …
Elements = Any  # a sequence of elements, or an array with one in each row
AnyAction = Any  # an action of `equitangents.actions`, or what a function takes in its place: a name, a map
Tree = Any  # a pytree of JAX: an array, or tuples, lists and dictionaries of them
DataRows = Any  # inputs of a training problem: an array (N, …), or points of fields


@runtime_checkable
class FiniteNetwork(Protocol):
    """A network of finite width: `nn.Sequential`, or an object with these two methods."""

    def __hash__(self) -> int:
        """Equal networks have equal hashes: their programs are compiled once."""

    def init(self, key: jax.Array, input_shape: InputShape, /, dtype: Any) -> Params:
        """Random parameters, a pytree, for inputs of shape (*positions, channels)."""

    def apply(self, params: Params, x: Any, /) -> jax.Array:
        """Outputs (N, outputs) at inputs x, (N, *positions, channels)."""


@runtime_checkable
class ShapedNetwork(FiniteNetwork, Protocol):
    """A network of finite width with the shape of its outputs, such as `nn.Sequential`."""

    def output_shape(self, input_shape: InputShape, /) -> tuple[int, ...]:
        """The shape of one output for inputs of shape (*positions, channels)."""
