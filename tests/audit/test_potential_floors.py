"""What decides an audit of a potential: floors of the same kind of move, structures that can show it, every pose."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones
from ase.calculators.morse import MorsePotential
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from audit.potentials import Cluster, clusters
from equitangents.audit.potentials.checks import below
from equitangents.audit.potentials.chirality import chiral
from equitangents.audit.potentials.results import outcome
from equitangents.audit.potentials.slopes import slopes
from equitangents.audit.report.sections import Estimate
from equitangents.groups import so3
from tests_examples import examples  # noqa: F401

FEW = {"resamples": 200}
CLUSTERS = clusters(6)


def rattled(name: str = "Cu", size: float = 0.1) -> Atoms:
    atoms = bulk(name, cubic=True)
    atoms.rattle(size, seed=0)
    return atoms
