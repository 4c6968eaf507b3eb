"""The engines, and the choice for a program: the fastest that can run it, or a named one.

The first one that is made for JAX's device is the default. An untried one (`Engine.untried`) is compared with the
reference engine on a small kernel at its first use. The environment variable EQUITANGENTS_ENGINE asks for one
where no argument does.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from operator import methodcaller
from typing import Any, NamedTuple

import jax
import numpy as np

from equitangents import precision
from equitangents._types import DType
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import duals
from equitangents.kernels.engines.cpu.engine import CpuEngine
from equitangents.kernels.engines.protocol import Engine
from equitangents.kernels.engines.reference.engine import ReferenceEngine
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Affine, Box, Dual, Pool
from equitangents.kernels.program import Positions, Program

REFERENCE = ReferenceEngine()  # which runs every program
_ENGINES: list[Engine] = [CpuEngine(), REFERENCE]


def engines() -> tuple[Engine, ...]:
    """All engines, those of this package first."""
    return tuple(_ENGINES)


def register(engine: Engine) -> None:
    """Make an engine of another package known by its name, which must be new."""
    if not isinstance(engine, Engine):
        raise InvalidArgumentError("engine", engine, "an instance of a subclass of Engine")
    if any(other.name == engine.name for other in _ENGINES):
        raise InvalidArgumentError("engine", engine.name, "a name that no other engine has")
    _ENGINES.append(engine)


def unregister(engine: Engine) -> None:
    """Forget an engine that was registered."""
    _ENGINES.remove(engine)
    _faults.pop(engine, None)


def engine_of(name: str, asked: str = "engine") -> Engine:
    """The engine of that name; raises InvalidArgumentError, naming the argument `asked`, if there is none."""
    for engine in _ENGINES:
        if engine.name == name:
            return engine
    names = ", ".join(repr(engine.name) for engine in _ENGINES)
    none = "None or" if asked == "engine" else "nothing or"
    raise InvalidArgumentError(asked, name, f"{none} one of {names}")


logger = logging.getLogger("equitangents")

VARIABLE = "EQUITANGENTS_ENGINE"
REPORT = "please report it, with the output of `equitangents doctor`, to the issue tracker of equitangents"
_logged: set[str] = set()
_faults: dict[Engine, str | None] = {}


class Choice(NamedTuple):
    """The engine that will run, and a note where it is not the fastest one."""

    engine: Engine
    notes: tuple[str, ...] = ()


def engine_name(engine: str | None = None) -> str:
    """Name of the engine that runs for `engine` (None: the best one for this machine)."""
    if (forced := _forced(engine)) is not None:
        return forced[0].name
    fastest, why = _fastest()
    return REFERENCE.name if why else fastest.name


def engine_description() -> str:
    """Text on the default engine: its name and description."""
    if (forced := _forced(None)) is not None:
        return f"{forced[0].name} ({forced[0].description()}; {VARIABLE} asks for it)"
    fastest, why = _fastest()
    if why:
        return f"{REFERENCE.name} ({why})"
    return f"{fastest.name} ({fastest.description()})"


def choose(program: Program, engine: str | None = None, dtype: DType = "float64") -> Choice:
    """The engine for `program` in `dtype`."""
    return choose_where(methodcaller("obstacle", program, dtype), engine)


def choose_where(obstacle: Callable[[Engine], str | None], engine: str | None = None) -> Choice:
    """The engine for a network; `obstacle` says why an engine cannot run it, or None if it can.

    What the fastest engine cannot run goes to the reference engine; the reason is logged once.
    """
    if (forced := _forced(engine)) is not None:
        chosen, asked = forced
        if why := obstacle(chosen):
            remedy = "use None or 'reference'" if asked == "engine" else "unset it or set it to 'reference'"
            raise InvalidArgumentError(f"{asked} is {chosen.name!r}, which cannot run this network: {why}; {remedy}")
        return Choice(chosen)
    fastest, why = _fastest()
    why = why or obstacle(fastest)
    if why is None:
        return Choice(fastest)
    note = f"{REFERENCE.name} engine in place of {fastest.name}: {why}"
    if note not in _logged:
        _logged.add(note)
        logger.info("%s", note)
    return Choice(REFERENCE, (note,))


def _forced(engine: str | None) -> tuple[Engine, str] | None:
    """(the engine asked for, where it was asked for), or None; raises InvalidArgumentError if it cannot run here."""
    name, asked = (engine, "engine") if engine is not None else (os.environ.get(VARIABLE) or None, VARIABLE)
    if name is None:
        return None
    chosen = engine_of(name, asked)
    if why := chosen.why_unavailable():
        raise InvalidArgumentError(f"{asked} is {name!r}, which is not available: {why}")
    if found := fault(chosen):
        raise InvalidArgumentError(f"{asked} is {name!r}, whose test on this machine failed: {found}; {REPORT}")
    return chosen, asked


def fault(engine: Engine) -> str | None:
    """Fault of an untried engine, found at its first use; None if there is none."""
    if not engine.untried():
        return None
    if engine not in _faults:
        _faults[engine] = _tried(engine)
    return _faults[engine]


def _distrust(engine: Engine) -> str | None:
    """Reason not to trust an engine on this machine, logged once as a warning; or None."""
    if (found := fault(engine)) is None:
        return None
    why = f"the test of the {engine.name} engine on this machine failed: {found}"
    if why not in _logged:
        _logged.add(why)
        warnings.warn(f"kernels are computed by the {REFERENCE.name} engine: {why}; {REPORT}", stacklevel=2)
    return why


def _fastest() -> tuple[Engine, str | None]:
    """The engine for the device that JAX runs on, and why it is not available, if so."""
    platform = jax.default_backend()
    for engine in _ENGINES:
        if platform in engine.platforms:
            return engine, engine.why_unavailable() or _distrust(engine)
    return _ENGINES[0], f"JAX runs on {platform}"


_ALLOWED = {"float32": 1e-5, "float64": 1e-10}  # relative to the largest entry; both engines promise a fifth of it
_SHAPE, _CHANNELS, _INPUTS, _OTHERS = (4, 3), 5, 3, 2


def _small_program() -> Program:
    """Windows on a torus, ReLU, the mean over positions, a dense layer."""
    window = Box(_SHAPE, _SHAPE, (3, 3), (1, 1), (1, 1), (1, 1), True)
    mean = Pool(FrozenArray(np.zeros(12, np.int32)), 1)
    return Program(
        Positions(_SHAPE), (window, Affine(1.5, 0.01), Dual(duals.PiecewiseLinear(0.0)), mean, Affine(1.0, 0.0))
    )


def _tried(engine: Engine) -> str | None:
    """Fault of the kernels of `engine`, or its error; None if they are those of the reference engine."""
    tried, found = _small_program(), 0
    try:
        with jax.ensure_compile_time_eval(), precision.scope(np.float64):
            for dtype, allowed in _ALLOWED.items():
                if engine.obstacle(tried, dtype) is None:
                    found += 1
                    if why := _compare(engine, tried, dtype, allowed):
                        return f"{why} ({dtype})"
    except Exception as error:  # whatever an engine of another package raises
        return f"{type(error).__name__}: {error}"
    return None if found else "it can run none of the networks that it is tested on"


def _compare(engine: Engine, tried: Program, dtype: str, allowed: float) -> str | None:
    draw = np.random.default_rng(0).standard_normal
    x, y = (draw((n, *tried.shape, _CHANNELS)).astype(dtype) for n in (_INPUTS, _OTHERS))
    asked: dict[str, Any] = {
        "between inputs": lambda chosen: chosen.kernels(tried, x, y),
        "of inputs with themselves": lambda chosen: chosen.kernels(tried, x, None),
        "on the diagonal": lambda chosen: chosen.diagonal(tried, x),
    }
    for what, ask in asked.items():
        for kind, found, exact in zip(("NNGP", "NTK"), ask(engine), ask(REFERENCE), strict=True):
            ours, theirs = (np.asarray(values, np.float64) for values in (found, exact))
            if ours.shape != theirs.shape:
                return f"its {kind} {what} has the shape {ours.shape} in place of {theirs.shape}"
            error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
            if not error <= allowed:
                return f"its {kind} {what} differs from the reference engine's by {error:.1e}, relative"
    return None
