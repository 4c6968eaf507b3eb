"""A plan's answer in words: numbers of networks, and shares of which it is said what they are of."""

from __future__ import annotations

from dataclasses import dataclass

from equitangents.planning.counts import one_in, percent
from equitangents.planning.violations import MEASURES

# `python -m benchmarks plan_coverage`: settings with theory, what its intervals of 90 % held of trained ensembles, and
# how many of its plans were within a factor of 2 of the members that were needed
_SETTINGS, _HELD, _NEAR = 26, 0.76, 20


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


def reached(goal: Goal, members: int, confidence: float, infinite: bool) -> str:
    """The sentence that so many members meet the goal, and in how many ensembles."""
    k, n = one_in(confidence)
    who = "of infinitely wide networks" if infinite else "trained like the pilot"
    does = goal.singular if members == 1 else goal.reached
    return f"{goal.members(members)} {does}: so do {k} of {n} ensembles of that size {who}."


def known(interval: tuple[int | None, int | None], draws: int, pilot: int | None) -> str:
    """How well the number of members is known, and from what."""
    low, high = interval
    between = f"{low:,} to {high:,}" if high is not None else f"{low:,} or more"
    if pilot is None:
        return (
            f"The 95 % interval of that number, {between}, is that of {draws:,} Monte Carlo draws alone; what trained "
            f"networks need is not in it."
        )
    chance = f"the chance of {pilot} pilot networks and of {draws:,} draws"
    return f"The 90 % interval of that number, {between}, covers {chance}."


def width_note() -> str:
    """How much networks of finite width may differ from a plan by theory."""
    return (
        "Networks are taken to be infinitely wide, and the intervals of this plan do not cover what finite width "
        f"changes. In {_SETTINGS} settings with networks of width 8 to 64 (guide on planning) such intervals of 90 % "
        f"held {percent(_HELD)} of trained ensembles, and {_NEAR} of {_SETTINGS} plans were within a factor of 2 of "
        "the members that were needed; a pilot, trained on data=(X, y), says what yours need."
    )
