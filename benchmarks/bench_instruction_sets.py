"""The CPU engine, and the bare loop compiled for the same instructions, with every instruction set of this machine.

GAP of 3 layers on 16×16×3, float32, in processor time of one thread: billions of element-layers per second.
"""

from __future__ import annotations

import os

import numpy as np

from benchmarks.bench_cpu_engine import network, shortest
from benchmarks.rooflines import bare_loop
from equitangents import nn
from equitangents.kernels.engines import cpu
from equitangents.kernels.engines.cpu.library import instruction_sets
from equitangents.kernels.plans.plan import FibrePlan, plan

LAYERS, SIDE, COUNT = 3, 16, 32


def main(repeats: int = 5) -> None:
    """One row for each instruction set, the narrowest first."""
    os.environ["OMP_NUM_THREADS"] = "1"
    print("| instructions | engine | bare loop | engine / bare loop |\n|---|---:|---:|---:|")
    for number, name in enumerate(instruction_sets()):
        bare = bare_loop(instructions=name)
        engine = engine_rate(number, repeats)
        bound = ("", "") if bare is None else (f"{bare.distance / 1e9:.2f}", f"{engine / bare.distance:.2f}")
        print(f"| {name} | {engine / 1e9:.2f} | {bound[0]} | {bound[1]} |", flush=True)


def engine_rate(instruction_set: int, repeats: int) -> float:
    """Element-layers per second by the engine, forced to that instruction set."""
    x, y = np.random.default_rng(0).standard_normal((2, COUNT, SIDE, SIDE, 3)).astype(np.float32)
    steps = plan(network(LAYERS, SIDE, nn.GlobalAvgPool()).lowered(x)[1])
    assert isinstance(steps, FibrePlan)
    work = COUNT**2 * LAYERS * SIDE**4
    return work / shortest(lambda: cpu.kernels(steps, x, y, instruction_set), repeats)
