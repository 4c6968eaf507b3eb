"""Which engine runs a plan: the fastest that can, or the one asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from equitangents.errors import InvalidArgumentError
from equitangents.kernels.engines import cpu, gpu
from equitangents.kernels.plan import FibrePlan, PairPlan

logger = logging.getLogger("equitangents")

ENGINES = ("cpu", "gpu", "reference")
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
        name, why = _fastest()
        return "reference" if why else name
    if engine != "reference" and (why := _why_unavailable(engine)):
        raise InvalidArgumentError(f"engine is {engine!r}, which is not available: {why}")
    return engine


def engine_description() -> str:
    """The engine that runs by default, for people: its name, and what it makes of this machine."""
    name, why = _fastest()
    if why:
        return f"reference ({why})"
    return f"{name} ({cpu.library_description() if name == 'cpu' else gpu.description()})"


def choose(plan: FibrePlan | PairPlan, engine: str | None = None, dtype: Any = "float64") -> Choice:
    """The engine for `plan` in `dtype`."""
    return choose_where(lambda name: cpu.obstacle(plan) if name == "cpu" else gpu.obstacle(plan, dtype), engine)


def choose_where(obstacle: Callable[[str], str | None], engine: str | None = None) -> Choice:
    """The engine for a network; `obstacle` says why the engine of a name cannot run it, or None if it can.

    What the fastest engine cannot run goes to `reference`; the reason is logged once.
    """
    name = engine_name(engine)
    fastest, why = _fastest() if engine is None else (name, None)
    if name != "reference":
        why = obstacle(name)
        if why and engine is not None:
            raise InvalidArgumentError(
                f"engine is {engine!r}, which cannot run this network: {why}; use None or 'reference'"
            )
    if why is None:
        return Choice(name, None)
    note = f"reference engine in place of {fastest}: {why}"
    if note not in _logged:
        _logged.add(note)
        logger.info("%s", note)
    return Choice("reference", note)


def _fastest() -> tuple[str, str | None]:
    """The engine for the device that JAX runs on, and why it is not available, if so."""
    platform = jax.default_backend()
    if platform == "gpu":
        return "gpu", _why_unavailable("gpu")
    return "cpu", _why_unavailable("cpu") if platform == "cpu" else f"JAX runs on {platform}"


def _why_unavailable(engine: str) -> str | None:
    return cpu.why_unavailable() if engine == "cpu" else gpu.why_unavailable()
