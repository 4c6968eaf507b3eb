"""Whether the mean of fully augmented ensembles is equivariant: at every width, only in the limit of width, or not.

At every width if the initial law is preserved (`admissible`); in the limit if the kernel is, Θ(ρ(g)x, ρ(g)x') =
Θ(x, x'), which the former implies. Both are for training that does not single out directions of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents._types import Network
from equitangents.actions import Action
from equitangents.errors import MemoryLimitError, NetworkError
from equitangents.kernels.invariance import is_invariant
from equitangents.nn.admissible import by_layers
from equitangents.nn.sequential import Sequential

_LINEAR = ("gd", "sgd", "momentum")  # optimizers that commute with every orthogonal change of the weights


@dataclass(frozen=True)
class MeanLaw:
    """at_width: whether the mean of infinitely many members is equivariant at every width; None where layers do not
    tell. in_limit: whether it is known to be in the limit of infinite width. reason: why not at every width, or None.
    """

    at_width: bool | None
    in_limit: bool
    reason: str | None = None

    @property
    def equivariant(self) -> bool:
        """At this width as far as layers tell, otherwise in the limit."""
        return self.in_limit if self.at_width is None else self.at_width

    def __str__(self) -> str:
        mean = "The mean of infinitely many members of this network"
        if self.at_width:
            return f"{mean} is exactly equivariant at this width, as at every other."
        why = "" if self.reason is None else f" ({self.reason})"
        if not self.in_limit:
            return f"{mean} is not equivariant, nor is it known to be in the limit of infinite width{why}."
        if self.at_width is None:
            return f"{mean} is equivariant in the limit of infinite width; at this width layers do not tell."
        return f"{mean} is equivariant in the limit of infinite width alone{why}."


def mean_law(net: Network, action: Action, x: np.ndarray, optimizer: object) -> MeanLaw | None:
    """`MeanLaw` of ensembles trained on all copies of their data under `action`.

    `x` are inputs (n, …), of which the shape is asked. None where nothing is known without sampling networks: of
    resampled inputs, networks without a kernel, kernels that neither layers nor they themselves tell of, and of
    optimizers that treat weights one by one if elements mix channels.
    """
    if not (callable(getattr(net, "kernel", None)) and commutes(optimizer, action)):
        return None
    try:
        found = by_layers(net, action, x.shape[1:]) if isinstance(net, Sequential) else None
        if found is not None and found.admissible:
            return MeanLaw(True, True)
        in_limit = is_invariant(net, action, x)
    except (NetworkError, MemoryLimitError):  # a network without a kernel
        return None
    if found is None:
        return MeanLaw(None, True) if in_limit else None
    return MeanLaw(False, in_limit, f"{found.layer}: {found.reason}")


def commutes(optimizer: object, action: Action) -> bool:
    """Whether steps of the optimizer commute with the action on weights."""
    linear = isinstance(optimizer, str) and optimizer in _LINEAR
    return bool(action.exact and (linear or action.permutes_positions))
