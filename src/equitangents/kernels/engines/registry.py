"""The engines that there are: the one list. The first that is made for JAX's device is the default."""

from __future__ import annotations

from equitangents.errors import InvalidArgumentError
from equitangents.kernels.engines.cpu.engine import CpuEngine
from equitangents.kernels.engines.gpu.engine import GpuEngine
from equitangents.kernels.engines.protocol import Engine
from equitangents.kernels.engines.reference.engine import ReferenceEngine

REFERENCE = ReferenceEngine()  # which runs every program
_ENGINES: list[Engine] = [CpuEngine(), GpuEngine(), REFERENCE]


def engines() -> tuple[Engine, ...]:
    """All engines, those of this package first."""
    return tuple(_ENGINES)


def register(engine: Engine) -> None:
    """Make an engine of another package known by its name, which must be new."""
    if not isinstance(engine, Engine):
        raise InvalidArgumentError(f"engine is {engine!r}; expected an instance of a subclass of Engine")
    if any(other.name == engine.name for other in _ENGINES):
        raise InvalidArgumentError(f"there is an engine {engine.name!r} already; give this one another name")
    _ENGINES.append(engine)


def unregister(engine: Engine) -> None:
    """Forget an engine that was registered."""
    _ENGINES.remove(engine)


def engine_of(name: str, asked: str = "engine") -> Engine:
    """The engine of that name; raises InvalidArgumentError, in terms of what `asked` for it, if there is none."""
    for engine in _ENGINES:
        if engine.name == name:
            return engine
    names = ", ".join(repr(engine.name) for engine in _ENGINES)
    none = "None or" if asked == "engine" else "nothing or"
    raise InvalidArgumentError(f"{asked} is {name!r}; expected {none} one of {names}")
