"""An object with `kernel(x1, x2)`, computed by literal sums: what the ensembles' tests train on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.kernels import Kernels
from oracles import literal_kernels


@dataclass(frozen=True)
class LiteralNetwork:
    """A network of `literal_kernels`; `feature_weights` multiply the flattened inputs (no symmetry survives them)."""

    layers: tuple
    flatten: bool = True
    feature_weights: tuple[float, ...] | None = None

    @staticmethod
    def relu_mlp(hidden=1, W=1.5, b=0.1, feature_weights=None):
        return LiteralNetwork((("dense", W, b), ("phi", "relu")) * hidden + (("dense", W, b),), True, feature_weights)

    @staticmethod
    def linear():
        return LiteralNetwork((("dense", 1.0, 0.0),))

    def invariant_under(self, action, input_shape):
        """A dense network of flattened inputs is under everything that keeps their inner products."""
        isometries = all(action.is_isometry(g, input_shape) for g in action.group.generators)
        return self.flatten and self.feature_weights is None and isometries

    def kernel(self, x1, x2=None):
        a = self._read(x1)
        if x2 is None:
            nngp, ntk = literal_kernels.kernels(self.layers, a)
        else:
            nngp, ntk = literal_kernels.cross_kernels(self.layers, a, self._read(x2))
        dtype = np.asarray(x1).dtype
        return Kernels(nngp.astype(dtype), ntk.astype(dtype), engine="literal")

    def _read(self, x):
        x = np.asarray(x, dtype=np.float64)
        x = x.reshape(len(x), -1) if self.flatten else x
        return x if self.feature_weights is None else x * np.array(self.feature_weights)
