"""What the figures of several studies share: estimates with bars, and axes of times that begin at 0 or end at ∞."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from equitangents.report import figures
from equitangents.statistics import Estimate


def estimates(
    axes: Axes, x: Sequence[float] | np.ndarray, values: Sequence[Estimate], colour: str, **look: Any
) -> None:
    """Dots with interval bars, joined by a thin line."""
    centre = np.array([e.value for e in values])
    bars = np.array([[e.value - e.low for e in values], [e.high - e.value for e in values]])
    look = {"fmt": "o-", "lw": 1.2, "ms": 4, "elinewidth": 1.0, **look}
    axes.errorbar(np.asarray(x, dtype=float), centre, np.maximum(bars, 0), color=colour, **look)


def logarithmic(
    axes: Axes,
    which: str = "both",
    ticks: Sequence[float] | np.ndarray | None = None,
    *,
    base: int = 10,
    fine: bool = False,
) -> None:
    """Logarithmic scales with plain numbers; `ticks` are those of x; `fine` marks 1, 2 and 5 of every decade of y."""
    if which in ("x", "both"):
        axes.set_xscale("log", base=base)
    if which in ("y", "both"):
        axes.set_yscale("log")
        if fine:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    if ticks is not None:
        axes.set_xticks([float(t) for t in ticks])
    figures.plain_log(axes, which)


def places(times: Sequence[float] | np.ndarray) -> np.ndarray:
    """Where times stand on an axis on which each takes one place: 0 and ∞ have no place on a logarithmic one."""
    return np.arange(len(times), dtype=float)


def time_ticks(axes: Axes, times: Sequence[float] | np.ndarray, label: str = "training time") -> None:
    """Ticks for `places`."""
    axes.set_xticks(places(times), [figures.log_label(t) if 0 < t < np.inf else "0" if t == 0 else "∞" for t in times])
    axes.set_xlabel(label)


def name_of(time: Any) -> str:
    """A training time, a number, in a sentence."""
    return "at initialisation" if time == 0 else "at the end" if np.isinf(time) else f"at time {time:g}"
