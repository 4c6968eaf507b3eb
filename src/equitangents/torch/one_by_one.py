"""A member trained by itself, by autograd: for every module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from equitangents.torch.modules import tensors
from equitangents.torch.recipe import Data, Recipe
from equitangents.torch.seeds import Seeds

if TYPE_CHECKING:
    import torch


class OneByOne:
    """One module in training (`torch.job.Trainer`), which draws from a generator of its own."""

    def __init__(self, modules: Sequence[torch.nn.Module], data: Data, recipe: Recipe, seeds: Sequence[Seeds]) -> None:
        (self._module,), (self._seeds,) = modules, seeds
        self._data, self._recipe = data, recipe
        self.optimiser = recipe.optimiser(self._module.parameters())
        self._noise: list[torch.Tensor] = []

    def epoch(self, orders: Sequence[torch.Tensor]) -> np.ndarray:
        """One pass over the rows that the member visits in order; its mean loss, (1,)."""
        (order,), total = orders, 0.0
        for rows in order.split(self._recipe.batch_size):
            self.optimiser.zero_grad()
            x, *targets = self._data.batch(rows)
            loss = self._recipe.lost(self._module(x), *targets)
            loss.backward()
            self.optimiser.step()
            total += float(loss.detach()) * len(rows)
        return np.array([total / self._data.samples])

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """The module in training, and PyTorch's generators where this member left them; afterwards as they were."""
        import torch

        device = self._recipe.device
        self._module.train()
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if self._noise:
                torch.set_rng_state(self._noise[0])
                if device.type == "cuda":
                    torch.cuda.set_rng_state(self._noise[1], device)
            else:
                torch.manual_seed(self._seeds.noise)
            yield
            self._noise = [torch.get_rng_state()]
            if device.type == "cuda":
                self._noise.append(torch.cuda.get_rng_state(device))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name, stacked over members, of which there is one."""
        return {name: tensor[None] for name, tensor in tensors(self._module).items()}

    def noise(self) -> list[torch.Tensor]:
        """States of the generators that the module draws from."""
        return self._noise

    def set_noise(self, states: Sequence[torch.Tensor]) -> None:
        """Go on from `noise`."""
        self._noise = list(states)
