"""A model behind a pipe, in several manners: `python piped_model.py once|loop|crash|seeks|prints|...` (see `main`)."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace

import numpy as np

SOURCE, SINK = sys.stdin.buffer, sys.stdout.buffer
WEIGHTS = np.random.default_rng(1).normal(size=(16, 3))


def scores(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1) @ WEIGHTS


def answer(y: np.ndarray) -> None:
    """As .npy; np.save itself does not write to every pipe."""
    buffer = io.BytesIO()
    np.save(buffer, y)
    SINK.write(buffer.getvalue())
    SINK.flush()


def main(manner: str) -> None:
    if manner == "loop":
        while SOURCE.peek(1):
            answer(scores(np.lib.format.read_array(SimpleNamespace(read=SOURCE.read))))
        return
    if manner == "crash":
        print("looking for weights", file=sys.stderr)
        raise RuntimeError("there are no weights")
    if manner == "seeks":
        np.load(SOURCE)
    if manner == "slow":
        time.sleep(60)
    if manner == "prints":
        print("loading", flush=True)
    given = io.BytesIO(SOURCE.read())
    x = np.load(given)
    if manner == "weighted":
        answer(scores(x) * np.load(given))
        return
    if manner == "rows":
        answer(scores(x)[:3])
    elif manner == "two":
        answer(scores(x))
        answer(x.sum((1, 2)))
    elif manner != "silent":
        answer(scores(x))


if __name__ == "__main__":
    main(sys.argv[1])
