"""The totals below a table of false alarms and misses: how many of how many, with exact binomial intervals."""

from __future__ import annotations

from collections.abc import Iterable


def totals(*counts: tuple[str, Iterable[tuple[int, int]]]) -> str:
    """In words, of every count its name and (how many were wrong, of how many) of each line; no lines, no words.

    The interval of a share is that of Clopper and Pearson, at 95 %.

    >>> totals(("false alarms", [(1, 20), (0, 30)]), ("misses", []))
    'false alarms: 1 of 50, 95 % interval 0.1 % to 10.6 %'
    """
    from scipy.stats import binomtest

    said = []
    for name, lines in counts:
        wrong, of = (sum(column) for column in zip(*lines, strict=True)) if (lines := list(lines)) else (0, 0)
        if of:
            ends = binomtest(wrong, of).proportion_ci(0.95)
            said.append(f"{name}: {wrong} of {of}, 95 % interval {100 * ends.low:.1f} % to {100 * ends.high:.1f} %")
    return "; ".join(said)
