"""The index tables that a program reads while it runs, by key."""

from __future__ import annotations

from typing import Any

from equitangents.kernels.plans.levels import TableLevel
from equitangents.kernels.plans.plan import FibrePlan, PairPlan
from equitangents.kernels.program import Program, Table, arrays_of


def tables_of(steps: FibrePlan | PairPlan, program: Program) -> dict[str, Any]:
    """All index tables that running the plan needs."""
    tables = arrays_of(program)
    if isinstance(steps, FibrePlan):
        tables[steps.labels.key] = steps.labels.array
        tables[steps.fibres.key] = steps.fibres.array
        tables |= {op.index.key: op.index.array for op in steps.field if isinstance(op, Table)}
        tables |= {lv.table.key: lv.table.array for lv in steps.levels.levels if isinstance(lv, TableLevel)}
    return tables
