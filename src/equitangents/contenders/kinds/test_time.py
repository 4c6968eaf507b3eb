"""Averaging over the orbit at test time: f̄(x) = (1/|G|) Σ_g f(ρ(g)x), f one augmented network."""

from __future__ import annotations

from equitangents.contenders.averaged import Averaged
from equitangents.contenders.kinds import augmented
from equitangents.contenders.problem import Problem

TITLE = "orbit average at test time"


def make(problem: Problem) -> Averaged:
    """Trained as the augmented network is."""
    return Averaged(augmented.make(problem), problem)
