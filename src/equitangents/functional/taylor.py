"""Linearisations and Taylor expansions of any function of parameters, by derivatives along θ - θ₀."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from equitangents._types import Params, Tree
from equitangents.functional.empirical import check_floating
from equitangents.validation import check_whole


def linearize(f: Callable[..., Tree], params: Params) -> Callable[..., Tree]:
    """f_lin(θ, *args) = f(θ₀, *args) + ∂f/∂θ (θ - θ₀), θ₀ = `params`: the limit of a wide network in training.

    >>> import jax.numpy as jnp
    >>> float(linearize(lambda w, x: w * w * x, jnp.array(3.0))(jnp.array(4.0), 1.0))
    15.0
    """
    return taylor_expand(f, params, 1)


def taylor_expand(f: Callable[..., Tree], params: Params, degree: int) -> Callable[..., Tree]:
    """f_n(θ, *args) = Σ_{k ≤ degree} (1/k!) ∂ᵏf (θ - θ₀)ᵏ about θ₀ = `params`.

    >>> import jax.numpy as jnp
    >>> float(taylor_expand(lambda w, x: w**3 * x, jnp.array(1.0), 2)(jnp.array(2.0), 1.0))
    7.0
    """
    degree = check_whole("degree", degree, 0)
    if degree:
        check_floating(params)

    def expanded(other: Params, *args: Tree, **keywords: Tree) -> Tree:
        step = jax.tree.map(jnp.subtract, other, params)

        def at(p: Params) -> Tree:
            return f(p, *args, **keywords)

        if degree == 0:
            return at(params)
        derivatives: list[Callable[[Params], Tree]] = [at]
        for _ in range(degree):
            derivatives.append(_along(derivatives[-1], step))
        terms = [derivative(params) for derivative in derivatives]
        return jax.tree.map(lambda *t: sum(term / math.factorial(k) for k, term in enumerate(t)), *terms)

    return expanded


def _along(f: Callable[[Params], Tree], step: Params) -> Callable[[Params], Tree]:
    """The derivative of f along `step`, as a function of the parameters."""
    return lambda p: jax.jvp(f, (p,), (step,))[1]
