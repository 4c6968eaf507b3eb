"""One file a family, one case a line: {name: {key: numbers or a code}}; and how a case is compared with its line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent


def read(family):
    """The cases of a family, by name; none where nothing is frozen yet."""
    path = FOLDER / f"{family}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(family, cases):
    """Replace the file of a family."""
    lines = (f"{json.dumps(name)}: {json.dumps(case, allow_nan=False)}" for name, case in cases.items())
    (FOLDER / f"{family}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def numbers(values):
    """A flat list of floats, infinite ones as a code for all; ValueError for NaN, which is never frozen nor found."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    if np.isnan(flat).any():
        raise ValueError(f"number {int(np.argmax(np.isnan(flat)))} of {len(flat)} is NaN")
    return [float(v) for v in flat] if np.isfinite(flat).all() else "infinite"


def summary(values, most=6):
    """All numbers of a small array; of a larger one the first, the middle, the last, its norm, two projections."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    if len(flat) <= most:
        return numbers(flat)
    directions = np.random.default_rng(len(flat)).normal(size=(2, len(flat))) / math.sqrt(len(flat))
    return numbers([flat[0], flat[len(flat) // 2], flat[-1], np.linalg.norm(flat), *(directions @ flat)])


def difference(frozen, found, tolerance):
    """What a case differs in, as lines; none where all codes are equal and all numbers within `tolerance` of its scale.

    The scale of a list of numbers is the largest of those frozen.
    """
    lines = [f"{key}: only in one of the two" for key in sorted(frozen.keys() ^ found.keys())]
    for key in frozen.keys() & found.keys():
        old, new = frozen[key], found[key]
        if isinstance(old, str) or isinstance(new, str) or len(old) != len(new):
            if old != new:
                lines.append(f"{key}: {old!r} was frozen, {new!r} was found")
            continue
        was, now = np.array(old), np.array(new)
        scale = np.max(np.abs(was), initial=0.0)
        far = np.max(np.abs(now - was), initial=0.0)
        if not far <= tolerance * scale:  # also where it is NaN
            lines.append(
                f"{key}: {old} was frozen, {new} was found, {far:.3g} apart, more than {tolerance * scale:.3g}"
            )
    return lines
