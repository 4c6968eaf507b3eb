"""What exact equivariance would cost instead, in units of one network of the planned architecture.

Counted are parameters, networks' evaluations a prediction, and evaluations a training sample and epoch. Hidden layers
are taken to dominate; a group convolution over G with full windows and C channels an element costs |G|²C² and has
|G|C² parameters, a layer of one network C² and C².
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Alternative:
    """One way to equivariance: its costs relative to one network, and what holds them up."""

    name: str
    parameters: float
    prediction: float
    training: float
    violation: str
    note: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def alternatives(members: int | None, order: int, augmentation_order: int, exact: bool) -> tuple[Alternative, ...]:
    """The ensemble of `members` beside exactly equivariant predictors for a group of `order` elements.

    exact: whether the action is one; resampled images are not, and nothing built on them is exactly equivariant.
    """
    left = "0" if exact else "that of resampling"
    found = [
        Alternative(
            "one network, mean over the orbit",
            1,
            order,
            augmentation_order,
            left,
            "the network is evaluated at all ρ(g)x and its outputs are averaged; augmentation may be kept or left out",
        ),
        Alternative(
            "one network, canonical input",
            1,
            1,
            1,
            left,
            "the cost of finding the canonical element is not counted; predictions jump where it does",
        ),
        Alternative(
            "group-convolutional network, as many parameters",
            1,
            order,
            order,
            left,
            f"C/√|G| channels an element, |G| = {order}; augmentation is not needed. At infinite width and with full "
            "windows its mean over initialisations is that of the augmented ensemble",
        ),
        Alternative(
            "group-convolutional network, as many activations",
            1 / order,
            1,
            1,
            left,
            "C/|G| channels an element; augmentation is not needed",
        ),
    ]
    if members is not None:
        found.insert(
            0,
            Alternative(
                f"ensemble of {members:,}",
                members,
                members,
                members * augmentation_order,
                "the target",
                "full augmentation: every epoch visits all transformed copies",
            ),
        )
    return tuple(found)
