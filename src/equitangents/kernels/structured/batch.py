"""Inputs of structured programs: positions in one axis, with masks and graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from equitangents import precision
from equitangents._types import DType
from equitangents.errors import NetworkError
from equitangents.kernels.branches import flat
from equitangents.kernels.structured.masks import check_boxes
from equitangents.kernels.structured.program import StructuredProgram


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Batch:
    """x (N, P, C), mask (N, P) or None, adjacency (N, P, P) or None."""

    x: Any
    mask: Any
    graphs: Any

    def rows(self, at: slice) -> Batch:
        """Some of the inputs."""
        return Batch(*(None if part is None else part[at] for part in (self.x, self.mask, self.graphs)))


def batch_of(program: StructuredProgram, x: Any) -> Batch:
    """Structured or plain inputs, positions in one axis."""
    values, mask = getattr(x, "x", x), getattr(x, "mask", None)
    flat_values = values.reshape((len(values), -1, values.shape[-1]))
    if mask is not None and not program.shape:
        mask = None  # vectors have no positions that could be missing
    return Batch(
        flat_values, None if mask is None else mask.reshape(flat_values.shape[:2]), getattr(x, "adjacency", None)
    )


def check_alike(program: StructuredProgram, one: Batch, other: Batch) -> None:
    """Raise NetworkError unless both sets of inputs have masks, and graphs where the program reads them."""
    if (one.mask is None) != (other.mask is None):
        raise NetworkError("one of x1 and x2 has a mask, the other none; give both one (all True where all is there)")
    for name, batch in (("x1", one), ("x2", other)):
        if not precision.is_traced(batch.mask):
            check_boxes(name, program, batch.mask)
    if reads_graphs(program):
        for name, batch in (("x1", one), ("x2", other)):
            if batch.graphs is None:
                raise NetworkError(
                    name,
                    None,
                    "graphs, over which the network aggregates",
                    "give Graphs(x, adjacency), or Aggregate a matrix",
                    verb="has graphs,",
                )


def reads_graphs(program: StructuredProgram) -> bool:
    """Whether a graph comes with each input."""
    return any(op.reads_graphs for op in flat(program.ops))


def typed(batch: Batch, dtype: DType) -> Batch:
    """The inputs as JAX arrays of `dtype`."""
    graphs = None if batch.graphs is None else jnp.asarray(batch.graphs).astype(dtype)
    return Batch(jnp.asarray(batch.x).astype(dtype), batch.mask, graphs)
