"""What executes field programs. `reference` is pure JAX: differentiable, on any device, in either precision."""

from __future__ import annotations

from equitangents.errors import InvalidArgumentError

ENGINES = ("reference",)


def engine_name(engine: str | None = None) -> str:
    """The engine that will run when `engine` is asked for (None: the best one for this machine)."""
    if engine is None:
        return ENGINES[0]
    if engine not in ENGINES:
        raise InvalidArgumentError(f"engine is {engine!r}; expected None or one of {', '.join(map(repr, ENGINES))}")
    return engine
