"""Which engine runs a plan: the fastest that can, or the one asked for."""

from __future__ import annotations

import logging
from typing import NamedTuple

import jax

from equitangents.errors import InvalidArgumentError
from equitangents.kernels.engines import cpu
from equitangents.kernels.plan import FibrePlan, PairPlan

logger = logging.getLogger("equitangents")

ENGINES = ("cpu", "reference")
_logged: set[str] = set()


class Choice(NamedTuple):
    """The engine that will run, and a note where it is not the fastest one."""

    engine: str
    note: str | None


def engine_name(engine: str | None = None) -> str:
    """The engine that will run when `engine` is asked for (None: the best one for this machine)."""
    if engine is not None and engine not in ENGINES:
        raise InvalidArgumentError(f"engine is {engine!r}; expected None or one of {', '.join(map(repr, ENGINES))}")
    if engine is None:
        return "reference" if _unavailable() else "cpu"
    if engine == "cpu" and (why := cpu.why_unavailable()):
        raise InvalidArgumentError(f"engine is 'cpu', which is not available: {why}")
    return engine


def engine_description() -> str:
    """The engine that runs by default, for people: its name, and what it makes of this machine."""
    if why := _unavailable():
        return f"reference ({why})"
    return f"cpu ({cpu.library_description()})"


def choose(plan: FibrePlan | PairPlan, engine: str | None = None) -> Choice:
    """The engine for `plan`. What the CPU engine cannot run goes to `reference`; the reason is logged once."""
    name = engine_name(engine)
    if name == "reference":
        why = _unavailable() if engine is None else None
    else:
        why = cpu.obstacle(plan)
        if why and engine == "cpu":
            raise InvalidArgumentError(
                f"engine is 'cpu', which cannot run this network: {why}; use None or 'reference'"
            )
    if why is None:
        return Choice(name, None)
    note = f"reference engine in place of cpu: {why}"
    if note not in _logged:
        _logged.add(note)
        logger.info("%s", note)
    return Choice("reference", note)


def _unavailable() -> str | None:
    if (platform := jax.default_backend()) != "cpu":
        return f"JAX runs on {platform}"
    return cpu.why_unavailable()
