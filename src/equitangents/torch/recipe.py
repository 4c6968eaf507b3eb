"""How every member is trained, and on what: losses, optimisers, and the order of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equitangents.torch.seeds import Seeds

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
        """That of one sample's outputs as the module makes them."""
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
    epochs: int
    batch_size: int
    device: torch.device
    fields: FieldOutputs | None = None

    def lost(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of what a module makes of a batch, on targets (rows, numbers)."""
        if self.fields is None:
            return LOSSES[self.loss](outputs, targets)
        rows, classes = self.fields.rows(outputs), self.fields.outputs
        if self.loss == "cross_entropy":
            at_positions = LOSSES[self.loss](rows.reshape(-1, classes), targets.reshape(-1, classes))
            return at_positions * (rows.shape[1] // classes)  # a sum over positions, a mean over samples
        return LOSSES[self.loss](rows, targets)

    def optimiser(self, parameters: Any) -> torch.optim.Optimizer:
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
    """Inputs x as modules read them and targets y (rows, outputs); an epoch visits `samples`, each of `copies` rows."""

    x: torch.Tensor
    y: torch.Tensor
    samples: int
    copies: int

    def order(self, generator: torch.Generator, batch_size: int) -> torch.Tensor:
        """The rows that an epoch visits, one after another, (samples,)."""
        import torch

        whole = batch_size == self.samples
        rows = torch.arange(self.samples) if whole else torch.randperm(self.samples, generator=generator)
        if self.copies > 1:
            rows = rows + self.samples * torch.randint(self.copies, (self.samples,), generator=generator)
        return rows


def orders(data: Data, recipe: Recipe, seeds: Seeds) -> Iterator[torch.Tensor]:
    """The order of one member's data, epoch by epoch."""
    import torch

    generator = torch.Generator().manual_seed(seeds.order)
    for _ in range(recipe.epochs):
        yield data.order(generator, recipe.batch_size)


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
