"""Engines that execute field programs, listed and chosen by `select`.

`reference` is pure JAX: every program, differentiable, on any device, including GPUs and TPUs. `cpu` is C++: much
faster on CPUs. `protocol` is the interface of engines.
"""

from equitangents.kernels.engines.protocol import Engine
from equitangents.kernels.engines.select import (
    REFERENCE,
    EngineChoice,
    choose,
    choose_where,
    engine_description,
    engine_name,
    engine_of,
    engines,
    register,
    unregister,
)

__all__ = [
    "REFERENCE",
    "Engine",
    "EngineChoice",
    "choose",
    "choose_where",
    "engine_description",
    "engine_name",
    "engine_of",
    "engines",
    "register",
    "unregister",
]
