"""The two-dimensional Ising model on a torus: energies H = −J Σ⟨ij⟩ s_i s_j and spins at a temperature."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError


def energy(spins: Float[np.ndarray, "n rows columns"], coupling: float = 1.0) -> Float[np.ndarray, " n"]:
    """H = −J Σ s_i s_j over nearest neighbours, periodic: every site counts its right and its lower neighbour."""
    neighbours = np.roll(spins, -1, axis=1) + np.roll(spins, -1, axis=2)
    return -coupling * (spins * neighbours).sum(axis=(1, 2))


def hot_spins(n: int, size: int, rng: np.random.Generator) -> Float[np.ndarray, "n size size"]:
    """Independent spins ±1: the model at infinite temperature. Its energies have variance 2 J² size²."""
    return rng.choice([-1.0, 1.0], size=(n, size, size))


def energy_task(
    size: int, train: int, test: int, seed: int
) -> tuple[Float[np.ndarray, "n size size 1"], Float[np.ndarray, " n"], Float[np.ndarray, "m size size 1"]]:
    """Training images of hot spins, their energies in units of the standard deviation, and test images."""
    rng = np.random.default_rng(seed)
    learnt, tested = (hot_spins(n, size, rng)[..., None] for n in (train, test))
    return learnt, energy(learnt[..., 0]) / (np.sqrt(2) * size), tested


def thermal_spins(
    n: int, size: int, temperature: float, rng: np.random.Generator, sweeps: int = 200
) -> Float[np.ndarray, "n size size"]:
    """`n` independent chains of Metropolis updates at `temperature` (in units of J/k_B), from aligned spins.

    Raises InvalidArgumentError unless the temperature is positive.
    """
    if not temperature > 0:
        raise InvalidArgumentError("temperature", temperature, "positive")
    spins = np.ones((n, size, size)) * rng.choice([-1.0, 1.0], size=(n, 1, 1))
    sites = [(i, j) for i in range(size) for j in range(size)]
    for _ in range(sweeps):
        for i, j in sites:
            field = spins[:, i - 1, j] + spins[:, (i + 1) % size, j] + spins[:, i, j - 1] + spins[:, i, (j + 1) % size]
            cost = 2 * spins[:, i, j] * field
            flip = rng.random(n) < np.exp(-np.maximum(cost, 0) / temperature)
            spins[:, i, j] = np.where(flip, -spins[:, i, j], spins[:, i, j])
    return spins
