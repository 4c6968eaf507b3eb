"""The engines, and the choice for a program: the fastest that can run it, or a named one.

The default is the first engine for JAX's device. The environment variable EQUITANGENTS_ENGINE selects one if there is
no argument.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import NamedTuple

import jax

from equitangents._types import DType
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.engines.cpu.engine import CpuEngine
from equitangents.kernels.engines.protocol import Engine
from equitangents.kernels.engines.reference.engine import ReferenceEngine
from equitangents.kernels.program import Program
from equitangents.kernels.result import Part

REFERENCE = ReferenceEngine()  # which runs every program
_ENGINES: list[Engine] = [CpuEngine(), REFERENCE]


def engines() -> tuple[Engine, ...]:
    """All engines, those of this package first."""
    return tuple(_ENGINES)


def register(engine: Engine) -> None:
    """Register an engine of another package under its name, which must be new."""
    if not isinstance(engine, Engine):
        raise InvalidArgumentError("engine", engine, "an instance of a subclass of Engine")
    if any(other.name == engine.name for other in _ENGINES):
        raise InvalidArgumentError("engine", engine.name, "a name that no other engine has")
    _ENGINES.append(engine)


def unregister(engine: Engine) -> None:
    """Remove a registered engine."""
    _ENGINES.remove(engine)


def engine_of(name: str, argument: str = "engine") -> Engine:
    """The engine with this name; raises InvalidArgumentError, naming `argument`, if there is none."""
    for engine in _ENGINES:
        if engine.name == name:
            return engine
    names = ", ".join(repr(engine.name) for engine in _ENGINES)
    none = "None or" if argument == "engine" else "nothing or"
    raise InvalidArgumentError(argument, name, f"{none} one of {names}")


logger = logging.getLogger("equitangents")

VARIABLE = "EQUITANGENTS_ENGINE"
_logged: set[str] = set()


class EngineChoice(NamedTuple):
    """The engine that will run, and a note if it is not the fastest one."""

    engine: Engine
    notes: tuple[str, ...] = ()


def engine_name(engine: str | None = None) -> str:
    """Name of the engine that runs for `engine` (None: the best one for this machine)."""
    if (forced := _forced(engine)) is not None:
        return forced[0].name
    fastest, why = _fastest()
    return REFERENCE.name if why else fastest.name


def engine_description() -> str:
    """Name and description of the default engine."""
    if (forced := _forced(None)) is not None:
        return f"{forced[0].name} ({forced[0].description()}; {VARIABLE} asks for it)"
    fastest, why = _fastest()
    if why:
        return f"{REFERENCE.name} ({why})"
    return f"{fastest.name} ({fastest.description()})"


def choose(program: Program, engine: str | None, dtype: DType, part: Part | None = None) -> EngineChoice:
    """The engine for `program` in `dtype`, or for a part of its field."""

    def obstacle(candidate: Engine) -> str | None:
        if part is None:
            return candidate.obstacle(program, dtype)
        return candidate.obstacle(program, dtype, part) if candidate.has_fields else "it has no kernel fields"

    return choose_where(obstacle, engine)


def choose_where(obstacle: Callable[[Engine], str | None], engine: str | None = None) -> EngineChoice:
    """The engine for a network; `obstacle` returns why an engine cannot run it, or None if it can.

    If the fastest engine cannot run it, the reference engine does; the reason is logged once.
    """
    if (forced := _forced(engine)) is not None:
        chosen, argument = forced
        if why := obstacle(chosen):
            remedy = "use None or 'reference'" if argument == "engine" else "unset it or set it to 'reference'"
            raise InvalidArgumentError(argument, chosen.name, "an engine that runs this network", f"{why}; {remedy}")
        return EngineChoice(chosen)
    fastest, why = _fastest()
    why = why or obstacle(fastest)
    if why is None:
        return EngineChoice(fastest)
    note = f"{REFERENCE.name} engine in place of {fastest.name}: {why}"
    if note not in _logged:
        _logged.add(note)
        logger.info("%s", note)
    return EngineChoice(REFERENCE, (note,))


def _forced(engine: str | None) -> tuple[Engine, str] | None:
    """(the requested engine, where it was requested), or None; raises InvalidArgumentError if it cannot run here."""
    name, argument = (engine, "engine") if engine is not None else (os.environ.get(VARIABLE) or None, VARIABLE)
    if name is None:
        return None
    chosen = engine_of(name, argument)
    if why := chosen.why_unavailable():
        raise InvalidArgumentError(argument, name, "an available engine", why)
    return chosen, argument


def _fastest() -> tuple[Engine, str | None]:
    """(the engine for JAX's device, or its substitute; why the former is not available, or None)."""
    platform = jax.default_backend()
    for engine in _ENGINES:
        if platform in engine.platforms:
            return engine, engine.why_unavailable()
    return _ENGINES[0], f"JAX runs on {platform}"
