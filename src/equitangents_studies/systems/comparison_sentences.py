"""From factors with intervals to sentences, which say what is not decided."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Protocol

import numpy as np

from equitangents.statistics import Estimate
from equitangents_studies.systems.candidates import Affordable
from equitangents_studies.systems.data_groups import data_group
from equitangents_studies.systems.factors import AS_THEY_ARE, Factor, Key, cut_off
from equitangents_studies.systems.matched_errors import ends_of, number_of
from equitangents_studies.systems.theorem_tables import LARGEST

_WIDE = 100


class Comparison(Protocol):
    """What sentences are about; an `ArchitectureComparison` is one."""

    @property
    def architectures(self) -> tuple[str, ...]:
        """From most symmetries to fewest."""

    @property
    def groups(self) -> tuple[str, ...]:
        """What moved the data."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors of every two architectures on data as they are, and of moved data."""

    @property
    def checks(self) -> Mapping[Key, float]:
        """Changes of kernels under groups that are not noticed."""

    @property
    def sizes(self) -> np.ndarray:
        """The sizes of the training sets."""

    @property
    def error(self) -> str:
        """Which error is compared."""

    @property
    def affordable(self) -> Affordable:
        """How many inputs were used."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an input."""

    @property
    def level(self) -> float:
        """The confidence of all intervals together."""

    def factor(self, first: Key, second: Key) -> Factor:
        """One of the factors."""


def sentences(found: Comparison) -> tuple[str, ...]:
    """The best architecture, what each saves, whose symmetries hurt or help, what moving costs, what is not noticed."""
    names = found.architectures
    steps = list(pairwise(names))
    return (
        _best(found),
        *(_saved(found, found.factor((names[0], AS_THEY_ARE), (name, AS_THEY_ARE))) for name in names[1:]),
        *(_step(found, found.factor((a, AS_THEY_ARE), (b, AS_THEY_ARE))) for a, b in steps),
        *(_moved(f) for f in found.factors if f.first[1] != AS_THEY_ARE),
        *_unnoticed(found),
        _together(found),
    )


def _best(found: Comparison) -> str:
    """The architecture that needs fewer samples than every other one, or those of which none is shown to need more."""
    beaten = {f.first[0] for f in _plain(found) if f.verdict == "fewer"}
    beaten |= {f.second[0] for f in _plain(found) if f.verdict == "more"}
    left = [name for name in found.architectures if name not in beaten]
    if len(left) == 1:
        against = [f for f in _plain(found) if left[0] in (f.first[0], f.second[0])]
        if all(f.verdict != "undecided" for f in against):
            return f"{left[0]} needs the fewest samples of {_listed(found.architectures)}."
        return f"Only {left[0]} is beaten by none, but it is not shown to need fewer samples than all others."
    if len(left) == len(found.architectures):
        return f"Which of {_listed(left)} needs the fewest samples is not decided by these data."
    if not left:
        return "Every architecture needs more samples than some other one, so none is the best."
    lost = [name for name in found.architectures if name in beaten]
    return (
        f"Which of {_listed(left)} needs the fewest samples is not decided; {_listed(lost)} "
        f"need{'s' * (len(lost) == 1)} more than another one."
    )


def _saved(found: Comparison, f: Factor) -> str:
    """Samples that the second architecture saves over the first, of the largest training set."""
    n, a, b, times = int(found.sizes[-1]), f.first[0], f.second[0], f.times
    if f.verdict == "undecided":
        return f"Whether {b} saves samples over {a} is not decided{_why(f)}."
    if f.verdict == "more":
        return f"{b} saves no samples: it needs {_more(f)} {a}{_how_many(f)}."
    if f.bound is not None and f.bound > 0:
        return f"{b} saves more than {100 * (1 - 1 / f.bound):.3g} % of the samples that {a} needs."
    if times is None:
        return f"{b} saves samples over {a}{_how_many(f)}."
    share, sizes = (
        [100 * (1 - 1 / v) for v in (times.value, *times.interval)],
        [n / v for v in (times.value, *times.interval)],
    )
    return (
        f"{b} saves {share[0]:.0f} % ({share[1]:.0f} to {share[2]:.0f} %) of the samples that {a} needs: about "
        f"{sizes[0]:,.0f} ({sizes[2]:,.0f} to {sizes[1]:,.0f}) training inputs do what {a} does with {n:,}."
    )


def _step(found: Comparison, f: Factor) -> str:
    """Whether what the first architecture is symmetric under, and the second is not, hurts."""
    a, b = f.first[0], f.second[0]
    larger, smaller = (data_group(LARGEST[name[:3]], found.shape) for name in (a, b))
    worse, better = (a, b) if f.verdict == "fewer" else (b, a)
    needs = f"{worse} needs {_more(f)} {better} for the same error{_how_many(f)}"
    if larger == smaller:
        which = f"{a} and {b} have the same symmetry, {larger.name}"
        if f.verdict == "undecided":
            return f"{which}; which of them needs fewer samples is not decided{_why(f)}."
        return f"{which}; {needs}."
    which = f"{a} cannot tell data moved by {larger.name} from those not moved, {b} only by {smaller.name}"
    if f.verdict == "undecided":
        return f"{which}; whether that symmetry of {a} hurts on these data is not decided{_why(f)}."
    return f"{which}; that symmetry of {a} {'hurts' if f.verdict == 'fewer' else 'helps'}: {needs}."


def _moved(f: Factor) -> str:
    """What it costs an architecture that a group, which it notices, moved the data."""
    name, group = f.first
    if f.verdict == "undecided":
        return f"Whether {name} needs more samples of data moved by {group} is not decided{_why(f)}."
    worse, better = ("moved", "not moved") if f.verdict == "fewer" else ("not moved", "moved")
    follows = f"what {group} destroys helps {name}" if f.verdict == "fewer" else f"what {group} destroys hurts {name}"
    return f"Of data {worse} by {group}, {name} needs {_more(f)} those {better}{_how_many(f)}: {follows}."


def _unnoticed(found: Comparison) -> list[str]:
    said = []
    for name in found.architectures:
        groups = [group for group in found.groups if (name, group) in found.checks]
        if groups:
            worst = max((found.checks[name, group] for group in groups), key=lambda c: math.inf if c != c else c)
            said.append(
                f"{name} does not notice {_listed(groups)} (Theorem 4.1 of arXiv 2207.04612): its kernel of a few "
                f"inputs changed by at most {worst:.1g} of its largest entry."
            )
    if "VEC" in found.architectures and "LCN" not in found.architectures:
        said.append("At infinite width LCN is VEC: what is said of VEC holds for LCN, too.")
    return said


def _together(found: Comparison) -> str:
    bounds = (
        " “More than” compares the largest training set of the one with the smallest of the other."
        if _any_bound(found)
        else ""
    )
    return (
        f"Factors are at the smallest {found.error} error that both curves reach, the worse one with "
        f"{found.sizes[-1]:,} training inputs; their intervals hold together at {100 * found.level:.4g} %, over "
        f"training sets drawn from the same {found.affordable.inputs:,} inputs.{bounds}"
    )


def _any_bound(found: Comparison) -> bool:
    return any(f.bound is not None and f.verdict != "undecided" for f in found.factors)


def _why(f: Factor) -> str:
    """Why no number is decided."""
    e = f.estimate
    if f.bound is not None:
        return ": one curve ends above where the other begins"
    if math.isnan(e.value):
        return ": some error is 0"
    if f.cut:
        return f": the factor is {cut_off(f)}"
    if not e.has_interval:
        return f": the factor is {e.value:.3g}, without an interval"
    if not e.high < _WIDE * e.low:
        return f": the factor is {e.value:.2g}, and its interval wider than a factor of {_WIDE}"
    equal = e.low > 1 or e.high < 1
    also = ", but the errors with the largest training sets may be equal" if equal and f.verdict == "undecided" else ""
    return f": the factor is {_factor(e)}{also}"


def _more(f: Factor) -> str:
    """By how much the worse needs more."""
    if f.times is not None:
        return f"{_factor(f.times)} times the samples of"
    if f.bound is not None and (f.bound > 0) == (f.verdict == "fewer"):
        return f"more than {abs(f.bound):.3g} times the samples of"
    return "more samples than"


def _how_many(f: Factor) -> str:
    """What is not known of a difference that is decided."""
    return "" if _more(f) != "more samples than" else f" (how many is not decided{_why(f)})"


def _factor(e: Estimate) -> str:
    return f"{number_of(e)} ({ends_of(e)})"


def _plain(found: Comparison) -> list[Factor]:
    return [f for f in found.factors if f.first[1] == AS_THEY_ARE]


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
