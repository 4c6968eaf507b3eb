"""What a contender is told before it sees data: the group, the shapes, and how long networks are trained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from equitangents import actions
from equitangents.actions import Action


@dataclass(frozen=True)
class Problem:
    """Classification of images (N, H, W, C) whose class no element of `group` changes.

    Args:
        group: its name, such as "C4", "C8" or "D4".
        shape: (H, W, C) of an image.
        classes: how many; labels are 0 to classes − 1.
        seed: of everything that is random.
        channels: of the layers of the plain convolutional network; other networks are as wide as gives them about
            as many parameters.
        members: of an ensemble.
        group_members: of an ensemble of group-convolutional networks.
        epochs: how often every training image is seen.
        batch: images a step.
        learning_rate: of Adam, for weights of unit variance.
        kernel_images: how many training images kernel machines use, the first ones; their cost grows as the cube.
    """

    group: str
    shape: tuple[int, int, int]
    classes: int
    seed: int = 0
    channels: tuple[int, ...] = (12, 16)
    members: int = 10
    group_members: int = 3
    epochs: int = 10
    batch: int = 32
    learning_rate: float = 0.01
    kernel_images: int = 1000

    @cached_property
    def action(self) -> Action:
        """How the group moves images."""
        action: Action = actions.as_action("group", self.group, (1, *self.shape))
        return action
