"""Types that load nothing, for modules that light commands import: aliases, and what is asked of users' objects.

An object fits a protocol if it has what that lists; it need not name it. `_types` has the aliases of arrays, too.
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
AnyModel = (
    Any  # what an audit asks: a function of a batch, a module, a file, an estimator, an ensemble, several of them
)
Element = Any  # of a group: a number where they are listed, else a rotation matrix, a permutation, (turn, shift) …
Elements = Any  # several: a sequence of elements, or an array with one of them in each row
AnyAction = Any  # an action of `equitangents.actions`, or what a function says it takes in its place: a name, a map
Tree = Any  # arrays of numbers, by themselves or in tuples, lists and dictionaries: what JAX calls a pytree
DataRows = Any  # of a training problem: inputs, an array (N, …), or points of fields, which are indexed as one


@runtime_checkable
class FiniteNetwork(Protocol):
    """A network of finite width: `nn.Sequential`, or a user's own object with these two methods."""

    def __hash__(self) -> int:
        """Equal networks have equal hashes: programs are compiled once for them."""

    def init(self, key: jax.Array, input_shape: InputShape, /, dtype: Any) -> Params:
        """Random parameters, a pytree, for inputs of shape (*positions, channels)."""

    def apply(self, params: Params, x: Any, /) -> jax.Array:
        """Outputs (N, outputs) at inputs x, (N, *positions, channels)."""


@runtime_checkable
class ShapedNetwork(FiniteNetwork, Protocol):
    """A network of finite width that says how large its outputs are, as `nn.Sequential` does."""

    def output_shape(self, input_shape: InputShape, /) -> tuple[int, ...]:
        """The shape of one output for inputs of shape (*positions, channels)."""
