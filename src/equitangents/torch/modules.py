"""Members as modules: made by the factory, and their tensors as arrays stacked over members.

Random numbers of a member depend only on (seed, member).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equitangents.errors import InvalidTypeError

if TYPE_CHECKING:
    import torch

LAYOUTS = ("channels_first", "channels_last")
_ROWS = 256  # evaluated at once
Tensors = dict[str, "torch.Tensor"]
"""Parameters and buffers by name."""
Factory = Callable[[], Any]
"""What makes a module."""


@dataclass(frozen=True)
class FieldOutputs:
    """Outputs that are fields, (rows, *positions, outputs) or, with channels first, (rows, outputs, *positions)."""

    grid: tuple[int, ...]
    outputs: int
    channels_first: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample's outputs as the module makes them."""
        return (self.outputs, *self.grid) if self.channels_first else (*self.grid, self.outputs)

    def rows(self, outputs: torch.Tensor) -> torch.Tensor:
        """All numbers of a sample in one row, position by position."""
        moved = outputs.movedim(1, -1) if self.channels_first else outputs
        return moved.reshape(len(outputs), -1)


class Seeds(NamedTuple):
    """Seeds of one member, whole numbers.

    init:  of torch.manual_seed before the factory is called
    order: of the torch.Generator that draws the order of the data, torch.randperm(N) an epoch
    noise: of torch.manual_seed before its training, for dropout and the like
    """

    init: int
    order: int
    noise: int


def member_seeds(seed: int, member: int) -> Seeds:
    """The seeds of one member of an ensemble.

    >>> member_seeds(0, 1) == member_seeds(0, 1), member_seeds(0, 1) == member_seeds(0, 2)
    (True, False)
    """
    drawn = np.random.SeedSequence(entropy=seed, spawn_key=(member,)).generate_state(3, np.uint64)
    return Seeds(*(int(s) >> 1 for s in drawn))


@contextlib.contextmanager
def random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """Within it PyTorch draws from `seed`; afterwards it goes on where it was."""
    import torch

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def make(factory: Factory, seed: int, member: int, dtype: str, device: torch.device) -> torch.nn.Module:
    """A member before training."""
    import torch

    with random_numbers(member_seeds(seed, member).init, device):
        module = factory()
    if not isinstance(module, torch.nn.Module):
        raise InvalidTypeError("factory", type(module), "a torch.nn.Module", verb="made a")
    return module.to(device=device, dtype=getattr(torch, dtype))


def tensors(module: torch.nn.Module) -> Tensors:
    """Parameters and buffers by name."""
    return dict([*module.named_parameters(), *module.named_buffers()])


def fill(module: torch.nn.Module, values: dict[str, np.ndarray]) -> torch.nn.Module:
    """The module with these parameters and buffers, in evaluation mode."""
    import torch

    with torch.no_grad():
        for name, tensor in tensors(module).items():
            tensor.copy_(torch.from_numpy(np.array(values[name])))
    return module.eval()


def outputs_of(
    module: torch.nn.Module, params: dict[str, np.ndarray], x: np.ndarray, layout: str, fields: FieldOutputs | None
) -> Iterator[np.ndarray]:
    """Outputs (members, some rows, numbers) of stacked members, which fill the module one after another."""
    import torch

    device = next(iter(tensors(module).values())).device
    as_rows = (lambda f: f) if fields is None else fields.rows
    members = len(next(iter(params.values())))
    for begin in range(0, len(x), _ROWS):
        with torch.inference_mode():  # left before its tensors are used elsewhere
            rows, parts = to_tensor(x[begin : begin + _ROWS], layout, device), []
            for i in range(members):
                filled = fill(module, {name: a[i] for name, a in params.items()})
                parts.append(as_rows(filled(rows)).cpu().numpy())
        yield np.stack(parts)


def to_tensor(x: np.ndarray, layout: str, device: torch.device) -> torch.Tensor:
    """Inputs as modules read them: in the layout "channels_first" images, two axes of positions or more, have it so."""
    import torch

    if layout == "channels_first" and x.ndim > 3:
        x = np.moveaxis(x, -1, 1)
    return torch.from_numpy(np.ascontiguousarray(x)).to(device)
