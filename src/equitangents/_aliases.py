"""Types that import nothing heavy, for modules that light commands load: aliases, and protocols for users' objects.

An object fits a protocol if it has the listed attributes; it need not name it. Array aliases are in `_types`.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """A network of finite width: `nn.Sequential`, or any object with these two methods."""

    def __hash__(self) -> int:
        """Equal networks have equal hashes, so that programs are compiled once for them."""

    def init(self, key: jax.Array, input_shape: InputShape, /, dtype: Any) -> Params:
        """Random parameters, a pytree, for inputs of shape (*positions, channels)."""

    def apply(self, params: Params, x: Any, /) -> jax.Array:
        """Outputs (N, outputs) at inputs x, (N, *positions, channels)."""


@runtime_checkable
class ShapedNetwork(FiniteNetwork, Protocol):
    """A network of finite width with a known output shape, as `nn.Sequential`."""

    def output_shape(self, input_shape: InputShape, /) -> tuple[int, ...]:
        """The shape of one output for inputs of shape (*positions, channels)."""


@runtime_checkable
class TaskExecutor(Protocol):
    """An object that hands tasks to workers, such as an executor of `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A future of fn(*args, **kwargs), which has `result`, `cancel` and `add_done_callback`."""


ExecutorLike = int | TaskExecutor
"""A number of processes of this machine, or an executor."""
