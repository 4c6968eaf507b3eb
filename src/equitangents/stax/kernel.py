"""The result of kernel_fn(x1, x2, None), under neural-tangents' names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Tree

_KNOWN = {"pytree_node": False}


@dataclass(frozen=True, eq=False)
class Kernel:
    """Kernels between two sets of inputs, with what a further kernel_fn needs.

    `nngp` and `ntk` (N1, N2), or over positions (N1, N2, H, H, W, W, …), with diagonal_spatial (N1, N2, H, W, …).
    `cov1`, `cov2`: kernels of each input with itself, (N1, …), with diagonal_batch=False (N1, N1, …); cov2 is None
    where x2 is. `shape1`, `shape2`: of the outputs. `mask1`, `mask2`: True where a position is missing, (N, …, 1),
    or None.
    """

    nngp: Tree
    ntk: Tree
    cov1: Tree
    cov2: Tree
    x1_is_x2: Tree = True
    mask1: Tree = None
    mask2: Tree = None
    is_gaussian: bool = field(default=False, metadata=_KNOWN)
    is_reversed: bool = field(default=False, metadata=_KNOWN)
    is_input: bool = field(default=False, metadata=_KNOWN)
    diagonal_batch: bool = field(default=True, metadata=_KNOWN)
    diagonal_spatial: bool = field(default=False, metadata=_KNOWN)
    shape1: Tree = field(default=None, metadata=_KNOWN)
    shape2: Tree = field(default=None, metadata=_KNOWN)
    batch_axis: int = field(default=0, metadata=_KNOWN)
    channel_axis: int = field(default=-1, metadata=_KNOWN)

    def replace(self, **changes: Tree) -> Kernel:
        """A copy of this kernel with some entries changed."""
        return dataclasses.replace(self, **changes)

    def asdict(self) -> dict[str, Tree]:
        """All entries by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def astuple(self) -> tuple[Tree, ...]:
        """All entries in order."""
        return tuple(self.asdict().values())

    def cut(self, rows: slice, columns: slice) -> Kernel:
        """Kernels between some of the first and some of the second inputs."""
        cov2 = self.cov1 if self.cov2 is None else self.cov2
        mask2 = self.mask1 if self.mask2 is None else self.mask2
        both = [None if v is None else v[rows, columns] for v in (self.nngp, self.ntk)]
        own = [v[at] if self.diagonal_batch else v[at, at] for v, at in ((self.cov1, rows), (cov2, columns))]
        masks = [None if m is None else m[at] for m, at in ((self.mask1, rows), (mask2, columns))]
        diagonal = rows == columns and self.x1_is_x2 is True
        sizes = self.nngp[rows, columns].shape
        shapes = [_resized(s, self.batch_axis, n) for s, n in zip((self.shape1, self.shape2), sizes, strict=False)]
        return self.replace(
            nngp=both[0], ntk=both[1], cov1=own[0], cov2=None if diagonal else own[1], x1_is_x2=diagonal,
            mask1=masks[0], mask2=None if diagonal else masks[1], shape1=shapes[0], shape2=shapes[1],
        )  # fmt: skip

    @classmethod
    def joined(cls, rows: list[list[Kernel]], alone: bool) -> Kernel:
        """The kernels of blocks: lists of rows of them; `alone`: of one set of inputs with itself."""
        first = rows[0][0]
        xp = jnp if isinstance(first.nngp, jax.Array) else np

        def whole(name: str) -> Tree:
            if getattr(first, name) is None:
                return None
            return xp.concatenate([xp.concatenate([getattr(k, name) for k in row], axis=1) for row in rows], axis=0)

        if not first.diagonal_batch:
            raise NotImplementedError("batch does not join kernels of diagonal_batch=False; call kernel_fn without it")
        alone = alone or (first.x1_is_x2 is True and first.cov2 is None)
        cov1 = xp.concatenate([row[0].cov1 for row in rows], axis=0)
        seconds = [(k.cov1 if k.cov2 is None else k.cov2) for k in rows[0]]
        nngp = whole("nngp")
        shapes = [
            _resized(s, first.batch_axis, n) for s, n in zip((first.shape1, first.shape2), nngp.shape, strict=False)
        ]
        masks = [None, None]
        if first.mask1 is not None:
            second = [(k.mask1 if k.mask2 is None else k.mask2) for k in rows[0]]
            masks = [xp.concatenate([row[0].mask1 for row in rows]), None if alone else xp.concatenate(second)]
        return first.replace(
            nngp=nngp, ntk=whole("ntk"), cov1=cov1, cov2=None if alone else xp.concatenate(seconds, axis=0),
            x1_is_x2=alone, mask1=masks[0], mask2=masks[1], shape1=shapes[0], shape2=shapes[1],
        )  # fmt: skip


def _resized(shape: Tree, axis: int, size: int) -> Tree:
    return None if shape is None else (*shape[:axis], size, *shape[axis + 1 :])


NAMES = tuple(f.name for f in dataclasses.fields(Kernel))
_ARRAYS = tuple(f.name for f in dataclasses.fields(Kernel) if f.metadata.get("pytree_node", True))
_STATIC = tuple(name for name in NAMES if name not in _ARRAYS)

jax.tree_util.register_dataclass(Kernel, data_fields=list(_ARRAYS), meta_fields=list(_STATIC))
