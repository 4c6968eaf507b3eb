"""What `tune` returns: every candidate with its score, the best one fitted, and which others are as good as it."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equitangents import notebook
from equitangents.formatting import duration
from equitangents.statistics import Estimate

_SHOWN = 10


@dataclass(frozen=True)
class Candidate:
    """One combination of the grid's values.

    params: as the grid has them. score: NaN where there is none; `note` then says why. difference: score minus the
    best one's; for leave-one-out with its 95 % interval over training samples. tied: whether the difference is too
    small to tell the two apart.
    """

    params: Mapping[str, Any]
    score: float
    difference: Estimate
    tied: bool
    note: str = ""

    @property
    def name(self) -> str:
        """Such as "depth=2, ridge=0.01"."""
        return ", ".join(f"{name}={_text(value)}" for name, value in self.params.items()) or "as given"


@dataclass(frozen=True)
class Tuning:
    """The candidates of a grid by one criterion, in the grid's order.

    measure: what scores are ("leave-one-out mean squared error", "leave-one-out accuracy", "log marginal likelihood").
    larger_is_better: of scores. best: the best candidate's ensemble, fitted to all samples. matrices: how many
    kernel matrices were made and decomposed. seconds: by the clock, the fit of the best included.
    """

    criterion: str
    measure: str
    larger_is_better: bool
    candidates: tuple[Candidate, ...]
    best: Any
    best_index: int
    samples: int
    matrices: int
    seconds: float

    @property
    def best_params(self) -> dict[str, Any]:
        """The best candidate's values, as the grid has them."""
        return dict(self.candidates[self.best_index].params)

    @property
    def best_score(self) -> float:
        """The best candidate's score."""
        return self.candidates[self.best_index].score

    @property
    def ties(self) -> tuple[Candidate, ...]:
        """The other candidates that cannot be told apart from the best."""
        return tuple(c for i, c in enumerate(self.candidates) if c.tied and i != self.best_index)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row a candidate, in the grid's order, as `pandas.DataFrame` takes it."""
        return [
            {
                **c.params,
                "score": c.score,
                "difference": c.difference.value,
                "low": c.difference.low,
                "high": c.difference.high,
                "tied": c.tied,
                "note": c.note,
            }
            for c in self.candidates
        ]

    def summary(self) -> str:
        """The choice, what is as good as it, and what it took, in a few sentences."""
        total, failed = len(self.candidates), sum(math.isnan(c.score) for c in self.candidates)
        name, end = self.candidates[self.best_index].name, "largest" if self.larger_is_better else "smallest"
        scored = total - failed
        if scored == 1:
            parts = [f"{name}: {self.measure} {self.best_score:.4g}, the only candidate with a score."]
        else:
            parts = [f"{name} has the {end} {self.measure} of {scored} candidates, {self.best_score:.4g}."]
            parts.append(self._about_ties(scored))
        if failed:
            parts.append(f"{failed} more {'has' if failed == 1 else 'have'} no score; their notes say why.")
        made = f"{self.matrices} kernel {'matrix was' if self.matrices == 1 else 'matrices were'} decomposed"
        return " ".join([*parts, f"{made}, in {duration(self.seconds)}."])

    def _about_ties(self, scored: int) -> str:
        count = len(self.ties)
        if self.criterion == "marginal_likelihood":
            if not count:
                return "All others are more than e times less probable to have given these targets."
            return f"{_others(count, scored)} within 1 of it, a Bayes factor below e: as good as this one."
        of = f"the 95 % interval of the difference, over {self.samples} samples,"
        if not count:
            return f"All others are worse: {of} leaves out 0 for each."
        return f"{_others(count, scored)} not told apart from it: {of} holds 0 or is unknown."

    def __str__(self) -> str:
        """The summary, then the best candidates, one a line."""
        return "\n".join([self.summary(), *(f"  {score}  {name}{mark}" for name, score, mark in self._rows())])

    def __repr__(self) -> str:
        best = self.candidates[self.best_index].name
        return f"<Tuning of {len(self.candidates)} candidates: {best}, {self.measure} {self.best_score:.4g}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary and the best candidates."""
        cells = (
            f"<tr><td style='text-align:left'>{html.escape(name + mark)}</td><td>{html.escape(score)}</td></tr>"
            for name, score, mark in self._rows()
        )
        head = f"<tr><th style='text-align:left'>candidate</th><th>{html.escape(self.measure)}</th></tr>"
        facts = notebook.table("Choice of a model", [("finding", self.summary())])
        return f"{facts}<table>{head}{''.join(cells)}</table>"

    def _rows(self) -> list[tuple[str, str, str]]:
        """(name, score, mark) of the best candidates."""
        sign = -1 if self.larger_is_better else 1
        scored = [c for c in self.candidates if not math.isnan(c.score)]
        best = self.candidates[self.best_index]
        scored.sort(key=lambda c: (c is not best, sign * c.score))
        marks = {True: " (not told apart from the best)", False: ""}
        rows = [(c.name, f"{c.score:.4g}", " (best)" if c is best else marks[c.tied]) for c in scored[:_SHOWN]]
        left = len(scored) - len(rows)
        return [*rows, (f"{left} more", "", "")] if left else rows


def _others(count: int, scored: int) -> str:
    return f"{count} of the {scored - 1} others {'is' if count == 1 else 'are'}"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
