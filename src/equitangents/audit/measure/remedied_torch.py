"""A PyTorch module averaged over a finite group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jax.tree_util import PyTreeDef

from equitangents.audit.adapters.outputs import plain
from equitangents.audit.measure.averaging import GroupMaps, LinearMap
from equitangents.errors import InvalidArgumentError


class AveragedModule(torch.nn.Module):
    """f̄(x) = mean over g of ρ_Y(g)⁻¹ f(ρ_X(g) x), one evaluation for every element.

    Holds the module and the group's maps as buffers, so that both go to a device together.
    """

    def __init__(self, module: torch.nn.Module, maps: GroupMaps):
        super().__init__()
        self.module, self.order, self.group = module, len(maps.inputs), maps.group
        self._in_axes, self._out_axes = maps.input_axes, maps.output_axes
        for side, table in (("in", maps.inputs), ("back", maps.back)):
            for g, row in enumerate(table):
                for i, one in enumerate(row):
                    self._keep(f"{side}_{g}_{i}", one)

    def _keep(self, name: str, one: LinearMap) -> None:
        index = None if one.index is None else torch.from_numpy(np.ascontiguousarray(one.index))
        matrix = None if one.matrix is None else torch.from_numpy(np.ascontiguousarray(one.matrix)).float()
        self.register_buffer(f"index_{name}", index)
        self.register_buffer(f"matrix_{name}", matrix)

    def _moved(self, x: torch.Tensor, name: str) -> torch.Tensor:
        index, matrix = getattr(self, f"index_{name}"), getattr(self, f"matrix_{name}")
        if index is None and matrix is None:
            return x
        flat = x.reshape(len(x), -1)
        return (flat[:, index] if matrix is None else flat @ matrix.to(x.dtype)).reshape(x.shape)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments, keywords by name, each with its batch first."""
        given = [*args, *(kwargs[name] for name in sorted(kwargs))]
        return [x.movedim(axis, 0) for x, axis in zip(given, self._in_axes, strict=True)]

    def _evaluated(self, leaves: list[Any], count: int, names: list[str]) -> tuple[list[Any], Any]:
        """The module's outputs, batch first, and what they were in; `count` arguments, the rest keywords."""
        placed = [x.movedim(0, axis) for x, axis in zip(leaves, self._in_axes, strict=True)]
        outputs, structure = _flat(plain(self.module(*placed[:count], **dict(zip(names, placed[count:], strict=True)))))
        return [y.movedim(axis, 0) for y, axis in zip(outputs, self._out_axes, strict=True)], structure

    def _whole(self, leaves: list[Any], structure: PyTreeDef) -> Any:
        """The outputs as the module returns them."""
        placed = [y.movedim(0, axis) for y, axis in zip(leaves, self._out_axes, strict=True)]
        if structure is None:
            return placed[0]
        return tuple(placed) if isinstance(structure, int) else dict(zip(structure, placed, strict=True))

    def _turned(self, g: int, leaves: list[Any]) -> list[Any]:
        """The arguments moved by an element."""
        return [self._moved(x, f"in_{g}_{i}") for i, x in enumerate(leaves)]

    def _back(self, g: int, leaves: list[Any]) -> list[Any]:
        return [self._moved(y, f"back_{g}_{i}") for i, y in enumerate(leaves)]

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        """The mean, as a tensor, a tuple or a dictionary."""
        given, names = self._leaves(args, kwargs), sorted(kwargs)
        totals: list[Any] | None = None
        structure: PyTreeDef = None
        for g in range(self.order):
            leaves, structure = self._evaluated(self._turned(g, given), len(args), names)
            back = self._back(g, leaves)
            totals = back if totals is None else [t + b for t, b in zip(totals, back, strict=True)]
        assert totals is not None
        return self._whole([t / self.order for t in totals], structure)


def _flat(output: Any) -> tuple[list[Any], Any]:
    """The tensors of an output, dictionaries by sorted name as everywhere in an audit, and what they were in."""
    if isinstance(output, dict):
        names = sorted(output)
        return [output[name] for name in names], names
    if isinstance(output, tuple | list):
        return list(output), len(output)
    return [output], None


def averaged(module: torch.nn.Module, maps: GroupMaps) -> AveragedModule:
    """The averaged module, in the mode of the given one and on its device."""
    tensors = [*module.parameters(), *module.buffers()]
    made = AveragedModule(module, maps)
    return made.to(tensors[0].device) if tensors else made


def check_flat(structure: PyTreeDef) -> None:
    """Raise unless inputs are one array, a tuple or a dictionary of arrays."""
    flat = str(structure).count("(") <= 2 and str(structure).count("{") <= 1
    if not flat:
        raise InvalidArgumentError("the inputs are nested; remedy(..., form='function') takes any tree of them")
