"""Kernels as models: the functions Θ(·, z) of some inputs z, of which every prediction by the kernel is a sum."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from equitangents.audit.adapters.model import Model

_FIXED = 16  # inputs z, at most: the first that are seen


@final
class KernelModel(Model):
    """Anything with `kernel(x1, x2)` that is no network: such as `EmpiricalKernel` and `orbit_average`.

    Where all Θ(·, z) are invariant, so is whatever is learnt by the kernel, from any data.
    """

    kind = "kernel"

    def __init__(self, kernel: Any) -> None:
        self.source = kernel
        self.name = type(kernel).__name__
        self._fixed: np.ndarray | None = None

    def run(self, x: Any) -> Any:
        """Θ(x, z), (N, inputs z)."""
        if self._fixed is None:
            self._fixed = np.array(x[:_FIXED])
        return np.asarray(self.source.kernel(np.asarray(x), self._fixed).ntk)
