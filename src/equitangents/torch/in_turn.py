"""Members trained one after another, by autograd: for every module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equitangents.torch.modules import random_numbers
from equitangents.torch.recipe import Data, Recipe, orders
from equitangents.torch.seeds import Seeds

if TYPE_CHECKING:
    import torch


def train_in_turn(module: torch.nn.Module, data: Data, recipe: Recipe, seeds: Seeds) -> np.ndarray:
    """Train one module, in place; returns its mean loss over each epoch's samples, (epochs,)."""
    optimiser = recipe.optimiser(module.parameters())
    history = []
    module.train()
    with random_numbers(seeds.noise, recipe.device):
        for order in orders(data, recipe, seeds):
            total = 0.0
            for rows in order.split(recipe.batch_size):
                optimiser.zero_grad()
                loss = recipe.lost(module(data.x[rows]), data.y[rows])
                loss.backward()
                optimiser.step()
                total += float(loss.detach()) * len(rows)
            history.append(total / data.samples)
    return np.array(history)
