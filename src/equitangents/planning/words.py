"""A plan in words: what is planned for, and the answer, with shares of which it is said what they are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents import nn
from equitangents.groups.group_maps import GroupMap
from equitangents.planning.pilot import Pilot
from equitangents.planning.violations import MEASURES, one_in, percent

# settings with theory, what its intervals of 90 % held of trained ensembles, and
# how many of its plans were within a factor of 2 of the members that were needed
_SETTINGS, _HELD, _NEAR = 26, 0.76, 20


def of_network(net: object, *, infinite: bool) -> str:
    """The layers with their widths, which mean nothing where the network is infinitely wide.

    >>> of_network(nn.Sequential(nn.Flatten(), nn.Dense(32), nn.Relu(), nn.Dense(1)), infinite=False)
    'Flatten, Dense 32, Relu, Dense 1'
    """
    if not isinstance(net, nn.Sequential):
        return getattr(net, "__name__", type(net).__name__)
    layers = []
    for layer in net.layers:
        channels = getattr(layer, "channels", None)
        layers.append(type(layer).__name__ + (f" {channels}" if channels is not None and not infinite else ""))
    return ", ".join(layers) + (", infinitely wide" if infinite else "")


def of_group(action: GroupMap) -> str:
    """The group and how it acts.

    >>> from equitangents import actions
    >>> of_group(actions.image_rotations(4))
    'C4, turns by 90° of images'
    """
    name = getattr(action, "name", None)
    return action.group.name if name is None else f"{action.group.name}, {name}"


def of_elements(action: object) -> str:
    """What the elements of the group are, in the plural.

    >>> from equitangents import actions
    >>> of_elements(actions.image_rotations(4)), of_elements(actions.image_dihedral(4))
    ('rotations', 'rotations and reflections')
    """
    name = getattr(action, "name", "")
    if not name.startswith(("turns", "rotations")):
        return "transformations"
    return "rotations and reflections" if "reflections" in name else "rotations"


def of_data(name: str | None, samples: int | None, x: np.ndarray) -> str:
    """What the networks are trained on.

    >>> of_data("digits", 60, np.zeros((10, 8, 8, 1)))
    'digits, 60 training samples of 8×8×1'
    """
    shape = "×".join(map(str, x.shape[1:]))
    count = "training samples" if samples is None else f"{samples:,} training sample{'s' if samples != 1 else ''}"
    return ("" if name is None else f"{name}, ") + f"{count} of {shape}"


@dataclass(frozen=True)
class Goal:
    """What is to be reached: the target of a measure on the orbits of some inputs."""

    measure: str
    target: float
    over_inputs: str
    inputs: int
    elements: str

    @property
    def reached(self) -> str:
        """What members do that reach it, after "members", "to" or "number of members"."""
        return self._reached("bring", "keep")

    @property
    def singular(self) -> str:
        """The words of the goal after "1 member"."""
        return self._reached("brings", "keeps")

    def at(self, violation: float) -> str:
        """What infinitely many members do that are at `violation`."""
        if self.measure == "osp":
            return f"infinitely many keep it in {percent(max(0.0, 1 - violation))}"
        return f"infinitely many members are at {violation:.3g}, above the target"

    def may_be_at(self, violation: float) -> str:
        """What infinitely many members might do, if that is uncertain."""
        if self.measure == "osp":
            return f"infinitely many may keep it in only {percent(max(0.0, 1 - violation))}, as far as the pilot shows"
        return f"infinitely many members may be at {violation:.3g}, as far as the pilot shows"

    def members(self, count: int | None = None) -> str:
        """The noun: networks where they keep a class, members of an ensemble where they bring down a number."""
        noun = "network" if self.measure == "osp" else "member"
        return f"{noun}s" if count is None else f"{count:,} {noun}{'' if count == 1 else 's'}"

    def _reached(self, bring: str, keep: str) -> str:
        if self.measure == "osp":
            return f"{keep} the class in {percent(max(0.0, 1 - self.target))} of {self.elements}{self._where}"
        return f"{bring} the {MEASURES[self.measure].title}{self._where}, to at most {self.target:g}"

    @property
    def _where(self) -> str:
        if self.inputs == 1:
            return ""
        return {
            "mean": f", mean over {self.inputs} inputs",
            "median": f", median over {self.inputs} inputs",
            "max": f", at the worst of {self.inputs} inputs",
        }[self.over_inputs]


def reached(goal: Goal, members: int, confidence: float, pilot: Pilot | None) -> str:
    """The sentence that so many members meet the goal, and in how many ensembles."""
    k, n = one_in(confidence)
    who = "of infinitely wide networks" if pilot is None else "trained like the pilot"
    does = goal.singular if members == 1 else goal.reached
    return f"{goal.members(members)} {does}: so do {k:,} of {n:,} ensembles of that size {who}."


def known(interval: tuple[int | None, int | None], draws: int, pilot: Pilot | None) -> str:
    """How well the number of members is known, and from what."""
    low, high = interval
    between = f"{low:,} to {high:,}" if high is not None else f"{low:,} or more"
    if pilot is None:
        return (
            f"The 95 % interval of that number, {between}, is that of {draws:,} Monte Carlo draws alone; what trained "
            f"networks need is not in it."
        )
    chance = f"the chance of {pilot.members} pilot networks and of {draws:,} draws"
    return f"The 90 % interval of that number, {between}, covers {chance}."


def width_note() -> str:
    """How much networks of finite width may differ from a plan by theory."""
    return (
        "Networks are taken to be infinitely wide, and the intervals of this plan do not cover what finite width "
        f"changes. In {_SETTINGS} settings with networks of width 8 to 64 (guide on planning) such intervals of 90 % "
        f"held {percent(_HELD)} of trained ensembles, and {_NEAR} of {_SETTINGS} plans were within a factor of 2 of "
        "the members that were needed; a pilot, trained on your data, says what yours need."
    )
