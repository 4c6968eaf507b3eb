"""The Gram matrix that is asked for, as the record that a new store of it would have."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.actions import Action, check_finite_group
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import is_invariant
from equitangents.precision import working_dtype
from equitangents.scale.identity import action_hash, engine_of, network_hash, row_digests, rows_of
from equitangents.scale.opening import Data
from equitangents.scale.record import Inputs, Record
from equitangents.scale.side import side_of_part, side_of_tile


def opened(name: str, x: Any) -> Any:
    """An array whose rows can be read: NumPy's, a memory map, Zarr's; of others a NumPy array."""
    if not (hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "__getitem__")):
        x = np.asarray(x)
    if len(x.shape) > 1 and x.shape[0] == 0:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}: it holds no inputs")
    if len(x.shape) < 2 or 0 in x.shape:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; expected (N, channels) or (N, *positions, channels)")
    return x


def precision_of(precision: str | None, data: Data) -> np.dtype:
    """What is asked for, else float32 where all inputs are, else float64."""
    if precision is None:
        return working_dtype(*data.values())
    if precision not in ("float32", "float64"):
        raise InvalidArgumentError(f"precision is {precision!r}; expected 'float32' or 'float64'")
    return np.dtype(precision)


def problem(
    net: KernelFunction, data: Data, action: Action | None, tile: int | None, dtype: np.dtype, *, shards: bool = False
) -> Record:
    """The record of a new store for the kernels of `data`; ShapeError and InvalidTypeError for what has none.

    `tile` None: a side that suits the network and the numbers of inputs. `shards`: large tiles are shards.
    """
    x1, x2 = data["x1"], data.get("x2")
    shape = tuple(x1.shape[1:])
    if x2 is not None and tuple(x2.shape[1:]) != shape:
        raise ShapeError(f"x2 has inputs of shape {tuple(x2.shape[1:])}; expected those of x1, {shape}")
    inverses = None
    if action is not None:
        inverses = _elements(net, x1, x2, action, dtype)
    inputs = {
        name: Inputs(shape, (x.shape[0],), row_digests(name, x, dtype, (x.shape[0],))) for name, x in data.items()
    }
    side = tile or side_of_tile(net, shape, dtype, x1.shape[0], None if x2 is None else x2.shape[0], shard=shards)
    return Record(
        network=repr(net),
        network_hash=network_hash(net, shape),
        action=None if action is None else action.name,
        action_hash=None if action is None else action_hash(action, shape),
        x1=inputs["x1"],
        x2=inputs.get("x2"),
        engine=engine_of(net, shape, dtype),
        precision=dtype.name,
        tile=side,
        inverses=inverses,
        part=side_of_part(side) if shards else None,
    )


def _elements(net: KernelFunction, x1: Any, x2: Any, action: Action, dtype: np.dtype) -> tuple[int, ...]:
    """The inverse of every element, after checking that the action is one that can be used."""
    if not isinstance(action, Action):
        raise InvalidTypeError(f"action is {action!r}; expected an action of a finite group, of equitangents.actions")
    check_finite_group("action", action, "a kernel for each element")
    if x2 is None and not is_invariant(net, action, rows_of("x1", x1, slice(0, 256), dtype)):
        raise InvalidArgumentError(
            f"action is {action.name}, under which the kernel is not invariant, so that one half of the matrix does "
            "not follow from the other; give x2=x1 for all of it"
        )
    return tuple(int(g) for g in action.group.inverses)
