"""What the package asks of objects that users may bring: networks that can be trained, executors.

An object fits if it has what the protocol lists; it need not name the protocol. For the others there are classes or
protocols in their rooms: `kernels.KernelFunction` (anything with kernels), `groups.SymmetryGroup`,
`actions.GroupAction`. Nothing is loaded but `typing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from equitangents._aliases import InputShape, Params

if TYPE_CHECKING:
    import jax


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


@runtime_checkable
class TaskExecutor(Protocol):
    """What hands tasks to workers: an executor of `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """A future of fn(*args, **kwargs), which has `result`, `cancel` and `add_done_callback`."""


ExecutorLike = int | TaskExecutor
"""A number of processes of this machine, or an executor."""
