"""First lines of audits over 600 models drawn at random: false alarms, misses, and how many are left open.

Only the first line is read, as an engineer reads it. A false alarm is "broken" of a model that keeps the symmetry (or
the tolerance), a miss is "equivariant" of one that does not; "undecided" leaves it open.
What is true is computed from the model in double precision without its noise, on the inputs of the audit. Of inputs
that no element moves nothing can be told, so that either claim is wrong. Potentials are those of `drawn_potentials`.
`python -m benchmarks audit_first_line` prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from benchmarks.bench_audit_verdicts import eighth_turns, images, parts
from benchmarks.drawn_potentials import potential
from benchmarks.totals import totals

MODELS = 600
Truth = Literal["kept", "violated", "open", "either"]
Answer = Literal["holds", "fails", "open"]
QUARTERS = tuple(lambda x, k=k: np.rot90(x, k, (1, 2)) for k in (1, 2, 3))
_NEAR = 1.25  # within this factor of the tolerance either answer is right
_ROUNDINGS = 100.0  # smaller violations than so many roundings are not in the numbers
_QUIET: dict[str, Any] = {"off_data": False, "layers": False, "resamples": 400}


class Audited(Protocol):
    """What has been drawn: what is true of it, and the first line of its audit."""

    @property
    def truth(self) -> Truth: ...

    def line(self, seed: int, **settings: Any) -> str: ...


@dataclass(frozen=True)
class Drawn:
    """One model with its inputs, and what is true of it."""

    model: Callable[[np.ndarray], np.ndarray]
    x: np.ndarray
    truth: Truth
    group: str = "C4"
    settings: dict[str, Any] = field(default_factory=dict)

    def line(self, seed: int, **settings: Any) -> str:
        """The first line of its audit."""
        from equitangents.audit import audit

        told = {**_QUIET, **self.settings, **settings}
        return audit(self.model, self.group, self.x, seed=seed, **told).summary().splitlines()[0]


@dataclass
class Row:
    """What was answered to the models of one kind."""

    kind: str
    counts: Counter[tuple[Truth, Answer]]

    def of(self, *answers: Answer) -> int:
        """How many were answered so."""
        return sum(n for (_, answer), n in self.counts.items() if answer in answers)

    @property
    def models(self) -> int:
        return sum(self.counts.values())

    @property
    def alarms(self) -> int:
        return self.counts["kept", "fails"] + self.counts["open", "fails"]

    @property
    def misses(self) -> int:
        return self.counts["violated", "holds"] + self.counts["open", "holds"]


def truth(
    exact: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    moves: Sequence[Callable[[np.ndarray], np.ndarray]] = QUARTERS,
    tolerance: float | None = None,
    rounding: float = 1e-15,
) -> Truth:
    """What is true of a model in double precision, without its noise.

    Without a tolerance single violations count, far above one `rounding` of the outputs; with one the largest mean
    under an element, of ‖f(x)‖ or of the spread, whichever is larger.
    """
    x = x.astype(np.float64)
    y, z = exact(x), np.array([exact(move(x)) for move in moves])
    off = np.linalg.norm(z - y, axis=2)
    every = np.concatenate([y[None], z])
    spread = np.sqrt(((every - every.mean((0, 1))) ** 2).sum() / len(every) / (len(y) - 1))
    if tolerance is None:
        worst = float(off.max())
        return "kept" if worst <= 1e-13 * spread else "violated" if worst > _ROUNDINGS * rounding else "either"
    units = (off / np.linalg.norm(y, axis=1), off / spread)
    error = max(units, key=np.mean).mean(axis=1).max()
    return "kept" if error < tolerance / _NEAR else "violated" if error > tolerance * _NEAR else "either"


def violation(rng: np.random.Generator) -> float:
    """None for one model in three, else from a millionth to all of the outputs' size, all magnitudes alike."""
    return 0.0 if rng.random() < 1 / 3 else float(10 ** rng.uniform(-6, 0))


def smooth(rng: np.random.Generator, share: float) -> Callable[[np.ndarray], np.ndarray]:
    """An invariant function and `share` times one that is none."""
    even, odd = parts(rng)
    return even if share == 0 else lambda x: even(x) + share * odd(x)


def exactly(rng: np.random.Generator) -> Drawn:
    dtype, constant = (np.float32, np.float64)[rng.integers(2)], rng.uniform(0, 10)
    even = smooth(rng, 0.0)
    return Drawn(lambda x: even(x) + x.dtype.type(constant), images(rng).astype(dtype), "kept")


def broken(rng: np.random.Generator) -> Drawn:
    f, x = smooth(rng, float(10 ** rng.uniform(-6, 0))), images(rng)
    tolerance = (None, None, 0.01)[rng.integers(3)]
    return Drawn(f, x, truth(f, x, tolerance=tolerance), settings={"tolerance": tolerance})


def rare(rng: np.random.Generator) -> Drawn:
    """A step that a single input of 50 to 200, or one of its copies, is beyond."""
    even, _ = parts(rng)
    x, w = images(rng, int(rng.choice([50, 100, 200]))), rng.normal(size=36)
    seen = np.sort(np.concatenate([x, *(move(x) for move in QUARTERS)]).reshape(-1, 36) @ w)
    limit, height = (seen[-1] + seen[-2]) / 2, 10 ** rng.uniform(-3, 1)
    f = lambda x: even(x) + height * (x.reshape(len(x), -1) @ w > limit)[:, None]
    return Drawn(f, x, truth(f, x))


def one_pose(rng: np.random.Generator) -> Drawn:
    """Upright inputs, and a model that answers otherwise in one of the other poses alone."""
    even, odd = parts(rng)
    x, share, pose = images(rng), 10 ** rng.uniform(-6, 0), int(rng.integers(1, 4))
    x[:, 0] += 6
    edge = lambda x, k: np.rot90(x, -k, (1, 2))[:, 0].mean((1, 2))
    there = lambda x: np.argmax([edge(x, k) for k in range(4)], axis=0) == pose
    f = lambda x: even(x) + share * there(x)[:, None] * (1 + odd(x))
    return Drawn(f, x, truth(f, x))


def noisy(rng: np.random.Generator) -> Drawn:
    """Other noise at every call. What is smaller than it is not in the numbers."""
    f, x, size = smooth(rng, violation(rng)), images(rng), 10 ** rng.uniform(-6, -1)
    chance = np.random.default_rng(rng.integers(2**32))
    return Drawn(lambda x: f(x) + size * chance.normal(size=(len(x), 3)), x, truth(f, x, rounding=size / 10))


def half(rng: np.random.Generator) -> Drawn:
    f, x = smooth(rng, violation(rng)), images(rng)
    tolerance = (None, 0.1, 0.1, 0.2)[rng.integers(4)]
    size = float(np.linalg.norm(f(x), axis=1).max())
    known = truth(f, x, tolerance=tolerance, rounding=size * float(np.finfo(np.float16).eps))
    return Drawn(lambda x: f(x).astype(np.float16), x.astype(np.float32), known, settings={"tolerance": tolerance})


def offset(rng: np.random.Generator) -> Drawn:
    """Outputs in single precision above a constant of 1 to 100,000."""
    f, x, constant = smooth(rng, violation(rng)), images(rng), 10 ** rng.uniform(0, 5)
    tolerance = (None, 0.05, 0.2)[rng.integers(3)]
    known = truth(f, x, rounding=float(np.finfo(np.float32).eps) * constant * np.sqrt(3))
    if tolerance is not None:
        known = truth(lambda x: f(x) + constant, x, tolerance=tolerance)
    single = lambda x: f(x).astype(np.float32) + np.float32(constant)
    return Drawn(single, x.astype(np.float32), known, settings={"tolerance": tolerance})


def saturated(rng: np.random.Generator) -> Drawn:
    """Probabilities of scores that are multiplied by 1 to 1,000."""
    scores, x, steep = smooth(rng, violation(rng)), images(rng), 10 ** rng.uniform(0, 3)

    def probabilities(x: np.ndarray) -> np.ndarray:
        z = steep * scores(x)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return Drawn(probabilities, x, truth(probabilities, x, rounding=steep * 1e-15))


def symmetric(rng: np.random.Generator) -> Drawn:
    """Blank inputs and such as are symmetric themselves among the others, or, one time in eight, alone."""
    f, x = smooth(rng, violation(rng)), images(rng)
    share = 1.0 if rng.random() < 1 / 8 else rng.uniform(0.1, 0.9)
    chosen = rng.random(len(x)) < share
    x[chosen] = sum(move(x[chosen]) for move in QUARTERS) + x[chosen]
    x[chosen & (rng.random(len(x)) < 0.5)] = 0
    moved = np.linalg.norm((x - np.rot90(x, 1, (1, 2))).reshape(len(x), -1), axis=1) > 1e-9
    return Drawn(f, x, truth(f, x[moved]) if moved.any() else "open")


def resampled(rng: np.random.Generator) -> Drawn:
    """Off by 3 to 100 floors of interpolation, or not at all."""
    floors = 0.0 if rng.random() < 1 / 3 else 10 ** rng.uniform(0.5, 2)
    f, x = eighth_turns(rng, floors)
    return Drawn(f, x, "violated" if floors else "kept", "C8")


KINDS: dict[str, Callable[[np.random.Generator], Audited]] = {
    "exact": exactly,
    "broken by 10⁻⁶ to 1": broken,
    "rare": rare,
    "one pose": one_pose,
    "noisy": noisy,
    "half precision": half,
    "large offset": offset,
    "saturated classifier": saturated,
    "symmetric inputs": symmetric,
    "resampled": resampled,
    "potential": potential,
}
"""Further kinds are further entries: a function that draws a model."""


_ANSWERS: dict[str, Answer] = {
    "equivariant": "holds",
    "holds": "holds",
    "within": "holds",
    "broken": "fails",
    "fails": "fails",
    "undecided": "open",
}


def read(line: str) -> Answer:
    """What a first line says: its first word is the verdict."""
    return _ANSWERS[line.split()[0].rstrip(":")]


def measure(models: int = MODELS, kinds: dict[str, Callable[..., Audited]] | None = None, **settings: Any) -> list[Row]:
    """The first lines of so many models, all kinds alike; model m is drawn by m alone."""
    kinds = KINDS if kinds is None else kinds
    names = list(kinds)
    rows = {name: Row(name, Counter()) for name in names}
    for m in range(models):
        name = names[m % len(names)]
        drawn = kinds[name](np.random.default_rng([7, m]))
        rows[name].counts[drawn.truth, read(drawn.line(m, **settings))] += 1
    return list(rows.values())


def table(rows: list[Row]) -> str:
    """What was true and what was answered, kind by kind, and the totals."""
    heads = ["kind", "models", "keep it", "do not", "said to hold", "said to fail", "undecided"]
    heads += ["false alarms", "misses"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    known = lambda row, *kinds: sum(n for (t, _), n in row.counts.items() if t in kinds)
    for row in rows:
        cells = [row.kind, row.models, known(row, "kept"), known(row, "violated"), row.of("holds"), row.of("fails")]
        cells += [row.of("open"), row.alarms, row.misses]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    words = totals(
        ("false alarms", [(row.alarms, known(row, "kept", "open")) for row in rows]),
        ("misses", [(row.misses, known(row, "violated", "open")) for row in rows]),
        ("undecided", [(row.of("open"), row.models) for row in rows]),
    )
    return "\n".join(lines) + "\n\n" + words


def main() -> None:
    """The table of all kinds."""
    print(table(measure()))
