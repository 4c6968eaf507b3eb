"""Verdicts of audits of changes by a strength, of pairs of nodes and of padded graphs: false alarms and misses.

As in `bench_audit_kinds`, whose table this continues: models that are exactly invariant, and the same with a planted
violation. Of changes it is `VIOLATION` of the spread between inputs, found on 512 other inputs as the mean over the
strengths; of groups as there. `python -m benchmarks audit_changes` prints the lines of docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bench_audit_kinds import (
    BACK,
    FRESH,
    INPUTS,
    MODELS,
    POINTS,
    SIZE,
    STEPS,
    VIOLATION,
    Array,
    Kind,
    Made,
    by_kind,
    clouds,
    plant,
    series,
)
from benchmarks.bench_audit_verdicts import Case, Row, measure, totals_of


@dataclass(frozen=True)
class Change:
    """A change by a strength, inputs, and what it leaves alone."""

    name: str
    transform: Callable[[], Any]
    inputs: Callable[[np.random.Generator, int], Array]
    still: Callable[[Array], Array]


def padded(rng: np.random.Generator, n: int) -> Array:
    """Series that vanish for four steps at either end."""
    x = series(rng, n)
    x[:, :4] = x[:, -4:] = 0
    return x


def periodic(rng: np.random.Generator, n: int) -> Array:
    """Series that repeat themselves every eight steps."""
    return np.tile(rng.normal(size=(n, 8)), (1, STEPS // 8))


def odd_images(rng: np.random.Generator, n: int) -> Array:
    """Images with a pixel in the middle, which magnifying leaves where it is."""
    return rng.normal(size=(n, 7, 7, 1))


def dim_images(rng: np.random.Generator, n: int) -> Array:
    """Numbers from 0.2 to 0.8, which a contrast of up to 1.2 does not cut off."""
    return 0.2 + 0.6 * rng.random((n, SIZE, SIZE, 1))


def standardised(x: Array) -> Array:
    """Pixels less their mean, over their size."""
    v = x.reshape(len(x), -1)
    v = v - v.mean(1, keepdims=True)
    return (v / np.sqrt((v**2).mean(1, keepdims=True)))[:, :5]


def differences(x: Array) -> Array:
    """Of neighbours in time."""
    return np.tanh(np.diff(x, axis=1)[:, :5])


def _changes() -> tuple[Change, ...]:
    from equitangents.audit import Transform

    window = lambda s, k: s[:, int(k) : int(k) + STEPS - 8]
    total = lambda s: np.stack([np.tanh(s).sum(1), (s**2).sum(1), np.sin(s).sum(1)], axis=1)
    spectrum = lambda s: np.abs(np.fft.fft(s, axis=1))[:, : s.shape[1] // 2 : 2]
    onset = lambda s: np.sin(s[:, :1] * [1, 2])
    middle = lambda x: np.stack([x[:, 3, 3, 0], np.tanh(2 * x[:, 3, 3, 0])], axis=1)
    return (
        Change("contrast of images", lambda: Transform("contrast", [0.5, 0.8, 1.2]), dim_images, standardised),
        Change("offset of series", lambda: Transform("offset", [-1.0, 0.5, 2.0]), series, differences),
        Change("speed of sound", lambda: Transform("speed", [0.5, 0.8, 1.25]), series, onset),
        Change("cropped shifts", lambda: Transform("shift", [-4, -1, 2, 4]), padded, total),
        Change("scale of images", lambda: Transform("scale", [1.2, 1.5, 2.0]), odd_images, middle),
        Change("crops of images", lambda: Transform("crop", [0.5, 0.7, 0.9]), odd_images, middle),
        Change("windows of recordings", lambda: Transform(window, [1, 3], reference=0), periodic, spectrum),
    )  # fmt: skip


def changed(change: Change, violation: float) -> Callable[[np.random.Generator], Made]:
    """Models that are off by `violation` of their spread between inputs, in the mean over the strengths."""

    def make(rng: np.random.Generator) -> Made:
        x = change.inputs(rng, INPUTS)
        if violation == 0:
            return change.still, x
        fresh, transform = change.inputs(rng, FRESH), change.transform()
        at = lambda s: transform.of("channels_last")(fresh, s)
        start = fresh if transform.reference is None else at(transform.reference)
        d, width = start[0].size, change.still(start).shape[1]
        W = rng.normal(size=(d, width)) / np.sqrt(d)
        odd = lambda x: np.tanh(x.reshape(len(x), -1) @ W + 0.3)
        off = np.mean([np.linalg.norm(odd(at(s)) - odd(start), axis=1).mean() for s in transform.strengths])
        spread = np.sqrt(change.still(start).var(axis=0, ddof=1).sum())
        share = violation * float(spread) / float(off)
        return lambda x: change.still(x) + share * odd(x), x

    return make


def _graphs() -> tuple[Kind, ...]:
    from equitangents.structured import Graphs

    permute = lambda p: p[:, BACK]
    whole = lambda a: a[:, BACK][:, :, BACK]

    def joined(rng: np.random.Generator, n: int) -> Any:
        """Nodes with features, symmetric adjacency, and which nodes exist."""
        a = rng.random((n, POINTS, POINTS)) < 0.5
        return Graphs(clouds(rng, n), (a | a.transpose(0, 2, 1)).astype(float), rng.random((n, POINTS)) < 0.8)

    def heard(x: Array, a: Array, mask: Array) -> Array:
        """What the nodes that exist hear from each other, summed."""
        m = mask[..., None] * 1.0
        return ((np.tanh(x) + np.einsum("npq,nqc->npc", a, np.sin(x) * m)) * m).sum(1)

    pairs = lambda p: np.exp(-((p[:, :, None] - p[:, None]) ** 2).sum(-1)) * np.tanh(p[:, :, None, 0])
    return (
        Kind("per-pair outputs", "S_n", clouds, pairs, permute, whole, "pairs", "points"),
        Kind("padded graphs", "S_n", joined, heard,
             lambda g: Graphs(permute(g.x), whole(g.adjacency), permute(g.mask)), lambda y: y),
    )  # fmt: skip


def cases() -> tuple[Case, ...]:
    """Every change and kind without and with its violation."""
    made = []
    off = f"off by {100 * VIOLATION:g} %"
    for kind in _graphs():
        settings = {"output_action": kind.output_action, "inputs": kind.kinds}
        made += [
            Case(kind.name, "kept", plant(kind, 0.0), kind.group, settings),
            Case(f"{kind.name}, {off}", "violated", plant(kind, VIOLATION), kind.group, settings),
        ]
    for change in _changes():
        made += [
            Case(change.name, "kept", changed(change, 0.0), change.transform()),
            Case(f"{change.name}, {off}", "violated", changed(change, VIOLATION), change.transform()),
        ]
    return tuple(made)


def rows_of(chosen: tuple[Case, ...] | None = None, models: int = MODELS, **settings: Any) -> list[Row]:
    """The verdicts of every case, or of those that are chosen."""
    known = cases()
    return measure(known if chosen is None else chosen, models, known, **settings)


def main() -> None:
    """The table, and the totals."""
    rows = rows_of()
    print(by_kind(rows) + "\n\n" + totals_of(rows))
