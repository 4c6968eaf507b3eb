"""Where the time goes from `InfiniteEnsemble.fit` to the CPU engine and back: the shares of the stops on the way.

A stop's share is its own: what it takes without the stops that it calls. Medians of several fits, by Python's profiler,
which counts the time of processors.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import equitangents as et
from equitangents import nn

REPEATS = 3
INPUTS, SIDE, CHANNELS = 200, 12, 3


class Stop(NamedTuple):
    """A function on the way, and the stop that calls it."""

    name: str
    file: str  # below src/equitangents
    function: str
    caller: str | None


STOPS = (
    Stop("fit", "ensembles/infinite/regressor.py", "fit", None),
    Stop("problem", "ensembles/infinite/problem.py", "dense", "fit"),
    Stop("network", "nn/sequential.py", "kernel", "problem"),
    Stop("lowering", "nn/sequential.py", "lowered", "network"),
    Stop("announcement", "kernels/cost/forecast.py", "announce", "network"),
    Stop("kernels", "kernels/runs/programs.py", "compute", "network"),
    Stop("choice", "kernels/engines/select.py", "choose", "kernels"),
    Stop("memory", "kernels/runs/programs.py", "check_memory", "kernels"),
    Stop("scales", "kernels/runs/by_scale.py", "all_pairs", "kernels"),
    Stop("engine", "kernels/engines/cpu/engine.py", "kernels", "scales"),
    Stop("description", "kernels/engines/cpu/descriptor.py", "describe", "engine"),
    Stop("C++", "kernels/engines/cpu/run.py", "_interruptible", "engine"),
    Stop("spectrum", "inference/spectrum.py", "decompose", "problem"),
)


def network() -> nn.Sequential:
    """Two convolutions and a global pool."""
    conv = [nn.Conv(1, 3, W_std=2**0.5, b_std=0.1), nn.Relu()]
    return nn.Sequential(*conv * 2, nn.GlobalAvgPool(), nn.Dense(1))


def walk(run: Callable[[], object]) -> dict[str, float]:
    """Seconds that each stop takes itself in one run."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(run)
    statistics = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    within = {
        stop.name: sum(
            values[3]
            for (file, _, function), values in statistics.items()
            if file.endswith(f"equitangents/{stop.file}") and function == stop.function
        )
        for stop in STOPS
    }
    inner = {stop.name: sum(within[other.name] for other in STOPS if other.caller == stop.name) for stop in STOPS}
    return {name: seconds - inner[name] for name, seconds in within.items()}


def main() -> None:
    """One row for each stop: its share of the whole, and where it is."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((INPUTS, SIDE, SIDE, CHANNELS)).astype(np.float32)
    y = rng.standard_normal((INPUTS, 1))

    def first() -> object:
        return et.InfiniteEnsemble(network()).fit(x, y)

    runs = [walk(first) for _ in range(1 + REPEATS)]
    print(f"{INPUTS} images of {SIDE}×{SIDE}×{CHANNELS} in float32, milliseconds of processors and shares of the whole")
    print(f"{'stop':<14}{'first fit':>18}{'later fits':>18}  file")
    shares = [{name: seconds / sum(run.values()) for name, seconds in run.items()} for run in runs]
    shown = lambda seconds, share: f"{1000 * seconds:>9.2f}{share:>9.2%}"
    for stop in STOPS:
        later, share = (np.median([of[stop.name] for of in every[1:]]) for every in (runs, shares))
        first_fit = shown(runs[0][stop.name], shares[0][stop.name])
        print(f"{stop.name:<14}{first_fit}{shown(later, share)}  {stop.file}: {stop.function}")
    print(f"{'all':<14}{shown(sum(runs[0].values()), 1)}{shown(np.median([sum(run.values()) for run in runs[1:]]), 1)}")
