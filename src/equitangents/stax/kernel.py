"""What kernel_fn gives where all is asked for, under neural-tangents' names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax


def _known(default: Any) -> Any:
    return field(default=default, metadata={"pytree_node": False})


@dataclass(frozen=True, eq=False)
class Kernel:
    """Kernels between two sets of inputs, and what a further kernel_fn needs of them.

    `nngp` and `ntk` (N1, N2), or over positions (N1, N2, H, H, W, W, …), with diagonal_spatial (N1, N2, H, W, …).
    `cov1`, `cov2`: kernels of each input with itself, (N1, …), with diagonal_batch=False (N1, N1, …); cov2 is None where
    x2 is. `shape1`, `shape2`: of the outputs. `mask1`, `mask2`: True where a position is missing, (N, …, 1), or None.
    """

    nngp: Any
    ntk: Any
    cov1: Any
    cov2: Any
    x1_is_x2: Any = True
    mask1: Any = None
    mask2: Any = None
    is_gaussian: bool = _known(False)
    is_reversed: bool = _known(False)
    is_input: bool = _known(False)
    diagonal_batch: bool = _known(True)
    diagonal_spatial: bool = _known(False)
    shape1: Any = _known(None)
    shape2: Any = _known(None)
    batch_axis: int = _known(0)
    channel_axis: int = _known(-1)

    def replace(self, **changes: Any) -> Kernel:
        """The same with some entries changed."""
        return dataclasses.replace(self, **changes)

    def asdict(self) -> dict[str, Any]:
        """All entries by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def astuple(self) -> tuple[Any, ...]:
        """All entries in order."""
        return tuple(self.asdict().values())


NAMES = tuple(f.name for f in dataclasses.fields(Kernel))
_ARRAYS = tuple(f.name for f in dataclasses.fields(Kernel) if f.metadata.get("pytree_node", True))
_KNOWN = tuple(name for name in NAMES if name not in _ARRAYS)

jax.tree_util.register_dataclass(Kernel, data_fields=list(_ARRAYS), meta_fields=list(_KNOWN))
