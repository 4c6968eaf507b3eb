"""What rounding and chance alone change: positions and cells off by one rounding, and the same structure once more."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.audit.potentials.evaluate import Potential, Values

_LAYERS = 8.0  # layers round their sums, too, not only their inputs
_TIMES = 2


def floors_of(potential: Potential, atoms: Any, values: Values, rng: np.random.Generator) -> dict[str, float]:
    """The floor of every quantity of one structure, in the units of reports."""
    n, unit, q = len(atoms), potential.unit, potential.quantities
    again = potential(atoms)
    noise = {name: q[name].apart(again[name], v, n) for name, v in values.items()}
    response = dict.fromkeys(values, 0.0)
    for _ in range(_TIMES):
        shaken = potential(_shaken(atoms, unit, rng))
        for name, v in values.items():
            response[name] += q[name].apart(shaken[name], v, n) / _TIMES
    return {name: noise[name] + _LAYERS * (response[name] + unit * q[name].size(v, n)) for name, v in values.items()}


def _shaken(atoms: Any, unit: float, rng: np.random.Generator) -> Any:
    moved = atoms.copy()
    moved.set_constraint()
    sign = lambda shape: 1 + unit * rng.choice([-1.0, 1.0], shape)
    moved.set_cell(np.asarray(atoms.cell) * sign((3, 3)), scale_atoms=False)
    size = max(float(np.abs(atoms.positions).max()), float(atoms.cell.lengths().max(initial=0.0)))
    moved.positions += size * (sign(atoms.positions.shape) - 1)
    return moved
