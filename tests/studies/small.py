"""A study of a moment for tests of the machinery, and a command line that runs one of five stages."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from equitangents import studies
from equitangents.report import Figure
from equitangents.statistics import bootstrap
from equitangents_studies.framework.claims import claim, theirs
from equitangents_studies.framework.study import Study, check


def outcomes(claims):
    """Whether each of the claims holds."""
    return [claim.outcome for claim in claims]


def follow(claims, expected):
    """Outcomes are these: of all claims where `expected` is a list, of those at its places where it is a dictionary."""
    found = outcomes(claims)
    assert found == expected if isinstance(expected, list) else {i: found[i] for i in expected} == expected


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def flat(nested):
    """`{a: {b: value}}` as `{(a, b): value}`."""
    return {(a, b): value for a, values in nested.items() for b, value in values.items()}


@dataclass(frozen=True)
class Settings:
    """Of every type that settings may have."""

    members: int = 10
    rate: float = 0.5
    widths: tuple[int, ...] = (8, 16)
    group: Literal["C4", "C8"] = "C4"
    limit: int | None = None
    centred: bool = True


class Small:
    """Two stages; the second is interrupted while `interrupt` is set, after `pause` seconds."""

    def __init__(self):
        self.interrupt = False
        self.pause = 0.0
        self.calls = []

    def measure(self, settings, folder):
        def first(task):
            self.calls.append("first")
            return {"x": np.random.default_rng(settings.members).normal(settings.rate, 0.1, 50)}

        def second(task):
            time.sleep(self.pause)
            if self.interrupt:
                raise KeyboardInterrupt
            self.calls.append("second")
            task.step(1, 1)
            return {"y": 2 * x}

        x = folder.stage("first", "First stage", first)["x"]
        return folder.stage("second", "Second stage", second)["y"]

    def claims(self, settings, y):
        how = {"measure": "Mean.", "covers": "draws", "by": theirs("test", "here")}
        return [claim("The mean exceeds 0.5", {"all": bootstrap(y)}, at_least=0.5, **how)]

    def present(self, settings, y, folder):
        return [Figure("none", "Caption.", "<svg></svg>")]

    def check(self, settings, data_dir):
        check(settings.members > 0, "members", settings.members, "positive")

    def study(self):
        return Study({"quick": Settings()}, self.measure, self.claims, ("@misc{a}",), self.check)


class FiveStages(Small):
    """Prints the number of each stage that it computes."""

    def __init__(self, slow):
        super().__init__()
        self.slow = slow

    def measure(self, settings, folder):
        slow = self.slow

        def compute(k, task):
            time.sleep(0.3 if slow else 0)
            print(k, end="", flush=True)
            return {"y": np.random.default_rng(k).normal(1, 0.1, 50)}

        stages = [folder.stage(f"stage-{k}", f"Stage {k}", lambda task, k=k: compute(k, task)) for k in range(5)]
        return np.concatenate([stage["y"] for stage in stages])


def five_stages(out, *, slow=False, **how):
    """Run it without a place in the catalogue of the tests that follow."""
    made = FiveStages(slow)
    studies.add(studies.StudyInfo("five", "Five", "nobody", ("quick",), "s", "none"), made.study(), made.present)
    try:
        return studies.run("five", out=out, **{"progress": False, **how})
    finally:
        del studies.registry["five"]


def command_line():
    """`FOLDER [--resume] [--slow]`."""
    five_stages(sys.argv[1], slow="--slow" in sys.argv, resume="--resume" in sys.argv, progress=True)
