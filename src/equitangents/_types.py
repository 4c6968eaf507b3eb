"""Type aliases used across the package."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

ArrayLike = np.ndarray | jax.Array
Signals = Float[ArrayLike, "n *positions channels"]
Params = Any  # a pytree of arrays, one entry a layer
InputShape = tuple[int, ...]  # (*positions, channels), without the batch axis
