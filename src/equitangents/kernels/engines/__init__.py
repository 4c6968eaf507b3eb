"""What executes field programs.

`reference` is pure JAX: every program, differentiable, on any device. `cpu` is C++, `gpu` CUDA C++: programs along
fibres, much faster.
"""

from equitangents.kernels.engines.select import ENGINES, Choice, choose, choose_where, engine_description, engine_name

__all__ = ["ENGINES", "Choice", "choose", "choose_where", "engine_description", "engine_name"]
