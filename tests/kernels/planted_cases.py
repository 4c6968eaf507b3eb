"""Has the n-th thread and the n-th piece of memory refused, in calls of the engine of every kind; prints how many.

Run with the library of planted_failures.cpp preloaded; a path to another build of the engine may be given.
"""

import ctypes
import gc
import sys

import numpy as np

from equitangents import nn
from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.engines.cpu import structured as joint
from equitangents.kernels.result import part_of
from equitangents.kernels.structured import batch_of
from equitangents.nn.sequential import lower_field

THREADS = 5


def cases(rng):
    """Calls without arguments, each with enough work for several threads."""
    x = rng.standard_normal((60, 10, 10, 3)).astype(np.float32)
    net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    plan = engine_of("cpu").plan(net.lower(x.shape[1:])[1])
    yield "matrix", lambda: run.kernels(plan, x, None)
    yield "two sets", lambda: run.kernels(plan, x[:40], x[20:].copy())
    many = np.tile(x, (30, 1, 1, 1))
    yield "listed", lambda: run.listed(plan, many, many[::-1])

    small = rng.standard_normal((80, 5, 5, 2))
    pooled = nn.Sequential(
        nn.Conv(1, 3), nn.Relu(), nn.AvgPool(2, 1, "circular"), nn.Conv(1, 3), nn.Relu(), nn.Flatten(), nn.Dense(1)
    )
    staged = engine_of("cpu").plan(pooled.lower(small.shape[1:])[1])
    yield "pools", lambda: run.kernels(staged, small, None)

    body = nn.Sequential(nn.Conv(1, 3), nn.Relu())
    part = part_of("all", 25)
    field = engine_of("cpu").field_plan(lower_field(body.layers, body.signals(small.shape[1:]))[1], part)
    yield "field", lambda: run.field_kernels(field.plan, part, small, None)

    mixed = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.Attention(1), nn.GlobalAvgPool(), nn.Dense(1))
    program = mixed.lowered(small)[1]
    batch = batch_of(program, small)
    yield "structured", lambda: joint.CompiledStructured().kernels(program, batch, None)


def main(path=None):
    """Every failure in every case: the same bits, or the error of memory."""
    if path is not None:
        other = ctypes.CDLL(path)
        other.eqt_instruction_set_name.restype = ctypes.c_char_p
        run._loaded = lambda: (other, None)
    run.threads = joint.threads = lambda: THREADS
    planted = ctypes.CDLL(None)
    gc.disable()  # has JAX collect, too, which would meet the failure
    went_on = refused = 0
    for name, call in cases(np.random.default_rng(0)):
        wanted = call()
        planted.plant_threads(-1, False)
        planted.plant_memory(-1)
        call()
        started, taken = planted.threads_asked(), planted.memory_asked()
        assert min(started - THREADS + 2, taken) > 0, (name, started, taken)
        for n in range(started):
            for every in (False, True):
                planted.plant_threads(n, every)
                found = call()
                planted.plant_threads(-1, False)
                assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True)), (name, n, every)
                went_on += 1
        for n in range(taken):
            planted.plant_memory(n)
            try:
                found = call()
            except MemoryLimitError:
                refused += 1
            else:
                assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True)), (name, n)
                went_on += 1
            finally:
                planted.plant_memory(-1)
    print(went_on, refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
