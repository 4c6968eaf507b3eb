"""Kernels of finite networks at initialisation, frozen: what trains a wide network that starts at zero output.

of one network θ      Θ_θ(x, x′) = Σ_μ ∂_μ f(x) ∂_μ f(x′)
symmetrised           (1/|G|) Σ_h Θ_θ(ρ(h)x, ρ(h)x′): the mean over the |G| networks x ↦ f(ρ(h)x; θ), as likely as θ
A network that starts at zero output has no prior variance: `.nngp` is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from equitangents import kernels, nn
from equitangents.actions import Action
from equitangents.kernels import Kernels


@dataclass(frozen=True, eq=False)
class FrozenKernel:
    """The empirical kernel of `net` with `params`."""

    net: nn.Sequential
    params: Any

    def kernel(self, x1: Any, x2: Any = None) -> Kernels:
        """Θ_θ in the precision of the parameters."""
        ntk = np.asarray(kernels.empirical(self.net, self.params, np.asarray(x1), x2), np.float64)
        return Kernels(nngp=np.zeros_like(ntk), ntk=ntk)


@dataclass(frozen=True, eq=False)
class SymmetrisedKernel:
    """The mean of the empirical kernels of the networks x ↦ f(ρ(h)x; θ), h ∈ G: invariant under `action`."""

    net: nn.Sequential
    params: Any
    action: Action

    def kernel(self, x1: Any, x2: Any = None) -> Kernels:
        """(1/|G|) Σ_h Θ_θ(ρ(h)x1, ρ(h)x2)."""
        x2 = x1 if x2 is None else x2
        one = FrozenKernel(self.net, self.params)
        order = self.action.group.order
        ntk: Any = sum(one.kernel(self.action(h, x1), self.action(h, x2)).ntk for h in range(order)) / order
        return Kernels(nngp=np.zeros_like(ntk), ntk=ntk)


def draw(net: nn.Sequential, shape: tuple[int, ...], seed: int, index: int) -> Any:
    """Parameters of network `index`, in float64."""
    return net.init(jax.random.fold_in(jax.random.key(seed), index), shape, "float64")
