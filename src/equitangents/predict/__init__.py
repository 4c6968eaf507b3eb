"""Predictions of trained wide networks under their names in neural-tangents.

Its loss is the mean over samples and outputs, ½ mean |f - y|², so that residuals decay as e^{-ηΘt/(N·outputs)}; the
convention of `InfiniteEnsemble`, a mean over samples alone, is faster by the number of outputs. All is computed in
double precision and returned in that of the kernels. Inside JAX programs (`jax.jit`, `jax.vmap`) the same NumPy code is
called from the program, so that there are no derivatives of it.
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
