"""Verdicts of audits over 300 synthetic models whose violation is known: false alarms and misses.

Every model is an invariant part plus a part of mean 0 along orbits, in a proportion found on 2,048 other inputs: its
violation is known. A false alarm is the verdict "broken" for a violation that is no larger than the floor or the
tolerance; a miss is "equivariant", within the tolerance or not, for one that is larger. "undecided" is neither.
`python -m benchmarks audit_verdicts` prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.totals import totals

MODELS = 15  # of each case
INPUTS, FRESH = 64, 2048
SIZE, SMOOTH = 6, 20
VERDICTS = ("equivariant", "equivariant within tolerance", "broken", "undecided")


@dataclass(frozen=True)
class Case:
    """Models with one kind of violation; `truth` says what must not be answered."""

    name: str
    truth: str
    """"kept": "broken" is a false alarm; "violated": "equivariant" is a miss; "either": at the limit."""
    make: Callable[[np.random.Generator], tuple[Any, np.ndarray]]
    """(model, inputs)"""
    group: Any = "C4"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class Row:
    """What was answered in one case."""

    case: Case
    counts: Counter[str]

    @property
    def models(self) -> int:
        return sum(self.counts.values())

    @property
    def false_alarms(self) -> int:
        return self.counts["broken"] if self.case.truth == "kept" else 0

    @property
    def misses(self) -> int:
        said = self.counts["equivariant"] + self.counts["equivariant within tolerance"]
        return said if self.case.truth == "violated" else 0


def images(rng: np.random.Generator, n: int = INPUTS) -> np.ndarray:
    return rng.normal(size=(n, SIZE, SIZE, 1))


def parts(rng: np.random.Generator, outputs: int = 3) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(invariant under quarter turns, of mean 0 along orbits), both of the shape (N, outputs)."""
    v, w = rng.normal(size=(2, SIZE**2, outputs)) / SIZE
    feature = lambda x, weights: np.tanh(x.reshape(len(x), -1) @ weights.astype(x.dtype))
    mean = lambda x, weights: sum(feature(np.rot90(x, k, (1, 2)), weights) for k in range(4)) / 4
    return lambda x: mean(x, v), lambda x: feature(x, w) - mean(x, w)


def quarter_turns(
    rng: np.random.Generator, violation: float, dtype: Any = np.float64, constant: float = 0.0
) -> tuple[Any, np.ndarray]:
    """A model off by `violation` of its spread between inputs, above a constant of so many spreads."""
    even, odd = parts(rng)
    x = images(rng, FRESH)
    spread = np.sqrt(even(x).var(axis=0, ddof=1).sum())
    share = _share(spread, odd(x), [odd(np.rot90(x, k, (1, 2))) for k in (1, 2, 3)], violation)
    offset = constant * spread
    return lambda x: even(x) + np.asarray(share * odd(x) + offset, x.dtype), images(rng).astype(dtype)


def _share(spread: float, start: np.ndarray, moved: list[np.ndarray], violation: float) -> float:
    """c with mean ‖c(odd(gx) − odd(x))‖ = violation·√(spread² + c²·variance of odd)."""
    off = float(np.mean([np.linalg.norm(m - start, axis=1).mean() for m in moved]))
    own = float(start.var(axis=0, ddof=1).sum())
    return violation * spread / np.sqrt(off**2 - violation**2 * own)


def blobs(rng: np.random.Generator, n: int) -> np.ndarray:
    """Smooth images that vanish before the border."""
    i, j = np.indices((SMOOTH, SMOOTH)) - (SMOOTH - 1) / 2
    a, b = rng.uniform(-SMOOTH / 6, SMOOTH / 6, (2, n, 4, 1, 1))
    width = rng.uniform(0.07, 0.1, (n, 4, 1, 1)) * SMOOTH
    return (rng.normal(size=(n, 4, 1, 1)) * np.exp(-((i - a) ** 2 + (j - b) ** 2) / (2 * width**2))).sum(1)[..., None]


def eighth_turns(rng: np.random.Generator, floors: float) -> tuple[Any, np.ndarray]:
    """A model of resampled images, off by so many of its floors under odd eighths of a turn, exact under quarters."""
    from equitangents.audit import audit

    i, j = np.indices((SMOOTH, SMOOTH)) - (SMOOTH - 1) / 2
    r, angle = np.hypot(i, j), np.arctan2(i, j)
    rings = np.stack([np.exp(-((r - q * SMOOTH) ** 2) / (2 * (0.08 * SMOOTH) ** 2)) for q in (0, 0.15, 0.3)], axis=-1)
    mixed = (rings @ rng.normal(size=(3, 3))).reshape(-1, 3)
    even = lambda x: np.tanh(x.reshape(len(x), -1) @ mixed / 8)
    x = blobs(rng, INPUTS)
    if floors == 0:
        return even, x
    quiet: dict[str, Any] = {"off_data": False, "layers": False, "resamples": 20}
    floor = np.mean([e.judged_floor for e in audit(even, "C8", x, **quiet).elements if not e.exact])
    # four waves around the centre: the same after a quarter turn, the opposite after an eighth
    waves = (np.cos(4 * angle) * np.exp(-(((r - 0.25 * SMOOTH) / (0.1 * SMOOTH)) ** 2)))[..., None]
    signed = (waves * rng.choice([-1.0, 1.0], 3)).reshape(-1, 3) / 8
    odd = lambda x: np.tanh(x.reshape(len(x), -1) @ signed)
    many = blobs(rng, 256)
    share = _share(np.sqrt(even(many).var(axis=0, ddof=1).sum()), odd(many), [-odd(many)], floors * float(floor))
    return lambda x: even(x) + share * odd(x), x


def relaxed(rng: np.random.Generator, violation: float, inside: Any = np.float64) -> tuple[Any, np.ndarray]:
    """Forces of relaxed tetrahedra of atoms, which are rounding, plus a constant push of the size `violation`."""
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]) / np.sqrt(8)
    turns = np.linalg.qr(rng.normal(size=(INPUTS, 3, 3)))[0]

    def forces(p: np.ndarray) -> np.ndarray:
        q = np.asarray(p, inside)
        d = q[:, :, None] - q[:, None]
        r2 = (d**2).sum(-1, keepdims=True) + np.eye(4, dtype=inside)[..., None]
        pull = (d * (1 - 1 / r2) * np.exp(-r2)).sum(2)
        return (pull + inside(violation) * np.array([0, 0, 1 / 2], inside)).astype(p.dtype)

    return forces, corners @ turns + 0.3 * rng.normal(size=(INPUTS, 1, 3))


def classes(rng: np.random.Generator, changing: float) -> tuple[Any, np.ndarray]:
    """Class numbers of invariant scores, of which this share changes under quarter turns."""
    even, odd = parts(rng)
    x = images(rng, FRESH)
    low, high = 0.0, 10.0
    middle_scores = np.median(even(x), axis=0)
    number = lambda x, c: (even(x) - middle_scores + c * odd(x)).argmax(axis=1)
    changed = lambda c: np.mean([number(np.rot90(x, k, (1, 2)), c) != number(x, c) for k in (1, 2, 3)])
    for _ in range(20 if changing else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if changed(middle) > changing else (middle, high)
    c = (low + high) / 2 if changing else 0.0
    return lambda x: number(x, c), images(rng)


def named(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """An invariant energy of a large constant part, and a dipole that is off by 10 % of its spread."""
    energy, _ = quarter_turns(rng, 0.0, constant=1e4)
    dipole, x = quarter_turns(rng, 0.1)
    return lambda x: {"energy": energy(x)[:, 0] + energy(x)[:, 1], "dipole": dipole(x)}, x


QUARTERS = quarter_turns
CASES = (
    Case("invariant, float64", "kept", lambda r: QUARTERS(r, 0.0)),
    Case("invariant, float32", "kept", lambda r: QUARTERS(r, 0.0, np.float32)),
    Case("float32, 0.1 roundings", "kept", lambda r: QUARTERS(r, 1e-8, np.float32)),
    Case("float32, 100 roundings", "violated", lambda r: QUARTERS(r, 1e-4, np.float32)),
    Case("resampled C8, invariant", "kept", lambda r: eighth_turns(r, 0.0), "C8"),
    Case("resampled C8, half a floor", "kept", lambda r: eighth_turns(r, 0.5), "C8"),
    Case("resampled C8, 5 floors", "violated", lambda r: eighth_turns(r, 5.0), "C8"),
    Case("off by 1 %", "violated", lambda r: QUARTERS(r, 0.01)),
    Case("off by 1 %, tolerance 2 %", "kept", lambda r: QUARTERS(r, 0.01), settings={"tolerance": 0.02}),
    Case("off by 1 %, tolerance 1 %", "either", lambda r: QUARTERS(r, 0.01), settings={"tolerance": 0.01}),
    Case("off by 1 %, tolerance 0.5 %", "violated", lambda r: QUARTERS(r, 0.01), settings={"tolerance": 0.005}),
    Case("off by 30 %", "violated", lambda r: QUARTERS(r, 0.3)),
    Case("vanishing, no scale", "kept", lambda r: relaxed(r, 0.0), "SO3", {"output_action": "vectors"}),
    Case("vanishing, scale 1", "kept", lambda r: relaxed(r, 0.0, np.float32), "SO3",
         {"output_action": "vectors", "output_scale": 1.0}),
    Case("vanishing but for 1 % of scale 1", "violated", lambda r: relaxed(r, 0.01), "SO3",
         {"output_action": "vectors", "output_scale": 1.0}),
    Case("constant of 1,000 spreads", "kept", lambda r: QUARTERS(r, 0.0, np.float32, 1e3)),
    Case("the same, off by 30 %, tolerance 5 %", "violated", lambda r: QUARTERS(r, 0.3, np.float32, 1e3),
         settings={"tolerance": 0.05}),
    Case("class numbers that stay", "kept", lambda r: classes(r, 0.0)),
    Case("5 % of class numbers change", "violated", lambda r: classes(r, 0.05)),
    Case("one of two outputs off by 10 %", "violated", named),
)  # fmt: skip


def measure(
    cases: tuple[Case, ...] = CASES, models: int = MODELS, known: tuple[Case, ...] = CASES, **settings: Any
) -> list[Row]:
    """The verdicts of every case; model m of case c depends on (c, m) alone, c its place among those `known`."""
    from equitangents.audit import audit

    quiet = {"off_data": False, "layers": False, "resamples": 400}
    rows = []
    for case in cases:
        c = [other.name for other in known].index(case.name)
        counts: Counter[str] = Counter()
        for m in range(models):
            f, x = case.make(np.random.default_rng([c, m]))
            infinite = isinstance(case.group, str) and case.group in ("SO3", "S8")
            elements = {"elements": 12} if infinite else {}
            report = audit(f, case.group, x, seed=m, **{**quiet, **elements, **case.settings, **settings})
            counts[report.verdict] += 1
        rows.append(Row(case, counts))
    return rows


def table(rows: list[Row]) -> str:
    """Counts of verdicts, false alarms and misses, and the totals."""
    lines = [
        "| models | known violation | equivariant | within tolerance | broken | undecided | false alarms | misses |",
        "|---|---|---|---|---|---|---|---|",
    ]
    words = {"kept": "at most the floor or tolerance", "violated": "above", "either": "at the limit"}
    for row in rows:
        wrong = {"kept": (row.false_alarms, "–"), "violated": ("–", row.misses), "either": ("–", "–")}[row.case.truth]
        cells = [row.case.name, words[row.case.truth], *(row.counts[v] for v in VERDICTS), *wrong]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n\n" + totals_of(rows)


def totals_of(rows: list[Row]) -> str:
    """False alarms among models that keep to the limit, misses among those that do not."""
    alarms = [(row.false_alarms, row.models) for row in rows if row.case.truth == "kept"]
    missed = [(row.misses, row.models) for row in rows if row.case.truth == "violated"]
    return totals(("false alarms", alarms), ("misses", missed))


def main() -> None:
    """The table of all cases."""
    print(table(measure()))
