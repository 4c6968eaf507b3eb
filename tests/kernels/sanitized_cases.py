"""Runs random programs through the engine's library named on the command line, one built with sanitizers."""

import ctypes
import sys
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[1]))

import equitangents as et
from equitangents import nn
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import descriptor
from equitangents.kernels.engines.cpu import rotations as compiled
from equitangents.kernels.engines.cpu import run as runs
from equitangents.kernels.engines.cpu.structured import CompiledStructured
from equitangents.kernels.result import part_of
from equitangents.kernels.rotations import sections
from equitangents.kernels.structured import batch_of
from equitangents.nn.sequential import lower_field
from kernels.random_structured import grids, lines
from kernels.test_compiled_rotations import networks as rotation_networks
from laws.networks import network
from laws.random_networks import grid_networks, group_networks

LARGEST = 20_000  # positions times offsets
LARGER = [(20,), (9, 8), (5, 4, 5)]


def in_every_variant(kernels, *others):
    """Kernels by every instruction set, with each of some other inputs, are numbers."""
    for number in range(len(runs.instruction_sets())):
        for other in others:
            assert all(np.isfinite(k).all() for k in kernels(other, number))


def run(net, shape, rng, most=20):
    """Every precision and kind of matrix; False where the engine does not run the network."""
    try:
        steps = engine_of("cpu").plan(net.lower(shape)[1])
    except et.errors.EquitangentsError:
        return False
    if descriptor.obstacle(steps) or sum(len(s.offsets.array) for s in steps.stages) * steps.positions > LARGEST:
        return False
    for dtype in (np.float32, np.float64):
        x, y = (rng.standard_normal((int(rng.integers(1, most)), *shape)).astype(dtype) for _ in range(2))
        in_every_variant(lambda other, number, x=x: runs.kernels(steps, x, other, number), y, None)
        runs.listed(steps, x)
        run_fields(net, x, y)
    return True


def run_fields(net, x, y):
    """All parts of the field of the layers before the readout."""
    readouts = (nn.Flatten, nn.GlobalAvgPool, nn.GroupPool)
    end = next((i for i, layer in enumerate(net.layers) if isinstance(layer, readouts)), None)
    if not end:
        return
    body = nn.Sequential(*net.layers[:end])
    count = body.signals(x.shape[1:])[-1].positions.count
    if count == 1 or count**2 > LARGEST:
        return
    program, engine = lower_field(body.layers, body.signals(x.shape[1:]))[1], engine_of("cpu")
    for positions in ("all", "same"):
        part = part_of(positions, count)
        if engine.obstacle(program, x.dtype, part):
            return
        plan = engine.field_plan(program, part)
        in_every_variant(
            lambda other, number, plan=plan: runs.field_kernels(plan.plan, plan.part, x, other, number), y, None
        )
        runs.listed(plan.plan, x, None, plan.part)


def on_groups():
    """Networks on wallpaper groups, with windows and readouts of several kinds."""
    for order, reflections, shape in ((4, True, (3, 3)), (2, False, (4, 3))):
        group = et.groups.wallpaper(rotations=order, reflections=reflections, shape=shape)
        turns = nn.GroupPool(group.generated_subgroup([shape[0] * shape[1]]))
        for window in ((3, 3), (2, 1), "full"):
            for readout in ([nn.Flatten()], [nn.GroupPool()], [turns, nn.Dense(1), nn.Relu(), nn.Flatten()]):
                layers = (nn.Lift(group, 1, window=window), nn.Relu(), nn.GroupConv(1, window=window), nn.Relu())
                yield nn.Sequential(*layers, *readout, nn.Dense(1)), (*shape, 2)


def run_rotations(net, bandlimit, rng):
    """Every precision; matrices and lists."""
    resolution = net.layers[0].resolution or 1
    program = sections(net.lower((bandlimit**2, 2))[1])
    for dtype in (np.float32, np.float64):
        x, y = (rng.standard_normal((int(rng.integers(1, 20)), bandlimit**2, 2)).astype(dtype) for _ in range(2))
        plan = compiled.plan_of(program, resolution, x.itemsize)
        kernels = lambda other, number, x=x, plan=plan: runs.kernels(plan, compiled.vectors(x), other, number)
        in_every_variant(kernels, compiled.vectors(y), None)
        pairs = x[np.zeros(37, int)], y[np.arange(37) % len(y)]
        compiled.CompiledRotations().kernels(program, resolution, *pairs, paired=True)
    return True


def run_structured(net, x, y=None):
    """Masks, graphs and attention; matrices and diagonals."""
    if isinstance(x, et.Graphs):
        x = et.Graphs(np.nan_to_num(x.x), x.adjacency, x.mask)
    elif not isinstance(x, et.Masked):
        return False
    program, engine = net.lowered(x)[1], CompiledStructured()
    one, other = (None if v is None else batch_of(program, v) for v in (x, y))
    in_every_variant(lambda second, number: engine.kernels(program, one, second, number), other, None)
    engine.diagonal(program, one)
    return True


def drawn(count, strategy, function):
    """In how many random cases the function runs the engine."""
    ran = []

    @settings(
        max_examples=count, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def each(case):
        ran.append(function(*case))

    each()
    return sum(ran)


def main(path):
    """Count what ran."""
    sanitized = ctypes.CDLL(path)
    sanitized.eqt_instruction_set_name.restype = ctypes.c_char_p
    runs._loaded = lambda: (sanitized, None)
    rng = np.random.default_rng(0)
    dense = nn.Sequential(nn.Dense(1, b_std=0.1), nn.Relu(), nn.Dense(1), nn.Relu(), nn.Dense(1))
    of_layers = lambda layers, x: run(network(layers), x.shape[1:], rng)
    of_group = lambda layers, kwargs, x: run(network(layers, **kwargs), x.shape[1:], rng)
    ran = sum(run(net, shape, rng) for net, shape in (*on_groups(), *((dense, (n,)) for n in (1, 130, 300))))
    ran += run(dense, (300,), rng, most=800)  # so many plain vectors that threads share them, and most tiles are whole
    ran += drawn(60, grid_networks(), of_layers) + drawn(60, grid_networks(LARGER), of_layers)
    ran += drawn(20, group_networks(), of_group)
    ran += drawn(20, st.tuples(rotation_networks(), st.integers(1, 5), st.just(rng)), run_rotations)
    ran += drawn(30, lines(), lambda net, x, literal: run_structured(net, x))
    print(ran + drawn(30, grids(), run_structured))


if __name__ == "__main__":
    main(sys.argv[1])
