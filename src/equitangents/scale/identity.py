"""Hashes that identify a Gram matrix: of the network, the group action, and the rows of the data.

A network is identified by its leading layers without weights and its lowered program, as for cached kernels; an action
by the images of a probe under all its elements.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from equitangents.actions import Action
from equitangents.actions.subset import ActionSubset
from equitangents.errors import InvalidTypeError
from equitangents.kernels.orbit import OrbitAverage
from equitangents.kernels.program import described
from equitangents.kernels.runs.programs import engine_for
from equitangents.scale.reading import LazyArray, some_rows
from equitangents.validation import check_array

_HASHED = 2**26  # bytes of the data that are read at once
_MOVED = 2**28  # bytes of copies of two inputs at a time


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record that JSON can hold."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def network_hash(kernel: object, shape: tuple[int, ...]) -> str:
    """SHA-256 of a network, or an orbit average of one, for inputs of `shape`; InvalidTypeError for other kernels."""
    return hashlib.sha256(_description(kernel, shape).encode()).hexdigest()


def action_hash(action: Action | ActionSubset, shape: tuple[int, ...], x: np.ndarray | None = None) -> str:
    """SHA-256 of the map of `action` on inputs of `shape`, and of the weights of a subset's elements.

    A linear map is identified by its values at random inputs, others by those at x.
    """
    maps = action.action if isinstance(action, ActionSubset) else action
    probe = _probe(shape) if x is None or maps.is_linear(shape) else np.concatenate([_probe(shape), x])
    count, most = _size(action), max(1, _MOVED // probe.nbytes)
    done = ""
    for start in range(0, count, most):
        some = np.arange(start, min(start + most, count))
        if isinstance(action, ActionSubset):
            moved = action.action.orbit(probe, action.elements[some])
        else:
            moved = action.orbit(probe, some) if count > most else action.orbit(probe)
        done += described(np.asarray(moved))
    weights = described(action.weights) if isinstance(action, ActionSubset) else ""
    return hashlib.sha256((done + weights).encode()).hexdigest()


def _size(action: Action | ActionSubset) -> int:
    """Number of elements; 1 for infinite groups, which are represented by their nodes."""
    if isinstance(action, ActionSubset):
        return len(action)
    return 1 if action.group.elements is None else int(action.group.order)


def engine_of(kernel: object, shape: tuple[int, ...], dtype: np.dtype) -> str:
    """The name of the engine that will compute `kernel` here."""
    return engine_for(_network(kernel).lower(shape)[1], dtype)


def rows_digest(name: str, x: LazyArray, dtype: np.dtype, count: int) -> str:
    """SHA-256 of the first `count` rows; raises unless they are finite numbers."""
    digest = hashlib.sha256(f"{dtype.str}{tuple(x.shape[1:])}".encode())
    step = max(1, _HASHED // max(1, int(np.prod(x.shape[1:])) * dtype.itemsize))
    for start in range(0, count, step):
        rows = slice(start, min(start + step, count))
        part = f"{name}[{rows.start}:{rows.stop}]" if rows.stop - rows.start < x.shape[0] else name
        digest.update(rows_of(part, x, rows, dtype).tobytes())
    return digest.hexdigest()


def rows_of(name: str, x: LazyArray, rows: slice, dtype: np.dtype) -> np.ndarray:
    """Rows of an array, in memory or not, converted for the kernel; errors name the array."""
    found = check_array(name, some_rows(name, x, rows), min_rank=2)
    with np.errstate(over="ignore"):  # infinite numbers are refused
        return np.ascontiguousarray(found, dtype)


def _network(kernel: Any) -> Any:
    """The network inside an orbit average, or the network itself."""
    if isinstance(kernel, OrbitAverage):
        return _network(kernel.base)
    if not hasattr(kernel, "lower"):
        raise InvalidTypeError(
            "net", kernel, "a network of equitangents.nn, or an orbit average of one, which a store can identify"
        )
    return kernel


def _description(kernel: object, shape: tuple[int, ...]) -> str:
    net = _network(kernel)
    if isinstance(kernel, OrbitAverage):
        return f"mean({action_hash(kernel.action, shape)},{_description(kernel.base, shape)})"
    leading, program = net.lower(shape)
    return f"{described(net.layers[:leading])}{described(program)}"


def _probe(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, *shape))
