"""Averaging over the orbit at test time: f̄(x) = (1/|G|) Σ_g f(ρ(g)x), f one augmented network."""

from __future__ import annotations

from equitangents_studies.contenders.averaged import Averaged
from equitangents_studies.contenders.kinds import augmented
from equitangents_studies.contenders.problem import Problem

TITLE = "orbit average at test time"


def make(problem: Problem) -> Averaged:
    """Trained as the augmented network is."""
    return Averaged(augmented.make(problem), problem)
