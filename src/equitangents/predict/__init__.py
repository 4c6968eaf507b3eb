"""Predictions of trained wide networks under their names in neural-tangents.

neural-tangents' loss is the mean over samples and outputs, ½ mean |f - y|², so that residuals decay as
e^{-ηΘt/(N·outputs)}; with `InfiniteEnsemble`'s mean over samples only, they decay faster by the number of outputs.
Computed in double precision and returned in the kernels' precision. JAX programs (`jax.jit`, `jax.vmap`) call the same
NumPy code, without derivatives.
"""

from equitangents.predict.any_loss import ODEState, gradient_descent
from equitangents.predict.mean_square import (
    gp_inference,
    gradient_descent_mse,
    gradient_descent_mse_ensemble,
    max_learning_rate,
)
from equitangents.predict.outputs import Gaussian

__all__ = [
    "Gaussian",
    "ODEState",
    "gp_inference",
    "gradient_descent",
    "gradient_descent_mse",
    "gradient_descent_mse_ensemble",
    "max_learning_rate",
]
