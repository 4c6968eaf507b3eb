"""How every member is trained, and on what: losses, optimisers, and the order of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equitangents.ensembles.training.variations import Variation

if TYPE_CHECKING:
    import torch


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


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the arithmetic of training, apart from data and seeds."""

    loss: str
    optimizer: str | Callable[..., torch.optim.Optimizer]
    learning_rate: float
    momentum: float
    batch_size: int
    device: torch.device
    variation: Variation
    fields: FieldOutputs | None = None

    def lost(self, outputs: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        """The loss of what a module makes of a batch, less `offsets`, on targets, both (rows, numbers)."""
        rows = outputs if self.fields is None else self.fields.rows(outputs)
        if offsets is not None:
            rows = rows - offsets
        if self.fields is None:
            return LOSSES[self.loss](rows, targets)
        classes = self.fields.outputs
        if self.loss == "cross_entropy":
            at_positions = LOSSES[self.loss](rows.reshape(-1, classes), targets.reshape(-1, classes))
            return at_positions * (rows.shape[1] // classes)  # a sum over positions, a mean over samples
        return LOSSES[self.loss](rows, targets)

    def optimiser(self, parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
        """A new optimiser of these tensors."""
        import torch

        if callable(self.optimizer):
            return self.optimizer(parameters)
        if self.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=self.learning_rate)
        momentum = self.momentum if self.optimizer == "momentum" else 0.0
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=momentum)


@dataclass(frozen=True)
class Data:
    """Inputs x as modules read them and targets y (rows, outputs); an epoch visits `samples`, each of `copies` rows.

    own: (members, rows) or None, the row of x and y that stands in the place of each. offsets: (members, rows, outputs)
    or None, what is subtracted from outputs. Both are of the members that a trainer has.
    """

    x: torch.Tensor
    y: torch.Tensor
    samples: int
    copies: int
    own: torch.Tensor | None = None
    offsets: torch.Tensor | None = None

    def order(self, generator: torch.Generator, batch_size: int) -> torch.Tensor:
        """The rows that an epoch visits, one after another, (samples,)."""
        import torch

        whole = batch_size == self.samples
        rows = torch.arange(self.samples) if whole else torch.randperm(self.samples, generator=generator)
        if self.copies > 1:
            rows = rows + self.samples * torch.randint(self.copies, (self.samples,), generator=generator)
        return rows

    def batch(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(x, y) or (x, y, offsets) of some rows, (rows,) of one member or (members, rows)."""
        import torch

        alone = rows.ndim == 1
        if self.own is not None:
            rows = rows.to(self.own.device)  # orders are drawn on the CPU
            rows = self.own[0][rows] if alone else torch.gather(self.own, 1, rows)
        if self.offsets is None:
            return self.x[rows], self.y[rows]
        members = 0 if alone else torch.arange(len(rows))[:, None]
        return self.x[rows], self.y[rows], self.offsets[members, rows]


def squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """½ Σ_k (f_k − y_k)², its mean over a batch."""
    return 0.5 * ((outputs - targets) ** 2).sum(dim=-1).mean()


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """−Σ_k y_k log softmax(f)_k, its mean over a batch."""
    import torch

    return -(targets * torch.log_softmax(outputs, dim=-1)).sum(dim=-1).mean()


LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mse": squared_error,
    "cross_entropy": cross_entropy,
}
