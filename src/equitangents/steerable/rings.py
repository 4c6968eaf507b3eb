"""Radial parts of kernels: Gaussian rings R_p(r) = exp(-(r - r_p)²/(2 w²))."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def rings(length: Any, radii: tuple[float, ...], width: float) -> Any:
    """Values (..., rings) at distances (...)."""
    xp = jnp if isinstance(length, jax.Array) else np
    centres = xp.asarray(radii, length.dtype)
    return xp.exp(-((length[..., None] - centres) ** 2) / (2 * width**2))
