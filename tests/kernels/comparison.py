"""How kernels of two engines are compared: entry by entry, against what the entry's own two inputs allow.

|K(x, x') − K'(x, x')| is measured in units of √(K(x, x) K(x', x')), for NNGP and NTK alike, by the engine that judges:
an engine under test does not say how far it may be off. K(x, x') itself is no unit: it may be small.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equitangents.kernels.engines.cpu import run

TOLERANCES = {np.dtype("float64"): 1e-12, np.dtype("float32"): 2e-6}


def by_reference(net, x1, x2=None):
    """(kernels between both sets, kernels of every input of each with itself), by the reference engine in float64.

    All are entries of one matrix, so that a network compiles once.
    """
    n = len(x1)
    k = net.kernel((x1 if x2 is None else np.concatenate([x1, x2])).astype(float), engine="reference")
    between, first, second = (
        replace(k, nngp=part(k.nngp), ntk=part(k.ntk))
        for part in (
            lambda v: v if x2 is None else v[:n, n:],
            lambda v: np.diag(v)[:n],
            lambda v: np.diag(v)[0 if x2 is None else n :],
        )
    )
    return between, (first, second)


def largest(found, expected, first, second):
    """The largest |found − expected| in units of √(first second); NaN if any is."""
    unit = np.outer(np.sqrt(first), np.sqrt(second))  # roots first: the product of two numbers need not be one
    error = np.abs(np.asarray(found, np.float64) - np.asarray(expected))
    return float(np.max(np.where(unit > 0, error / np.where(unit > 0, unit, 1.0), error)))


def assert_within(limit, found, exact, first, second=None):
    """NNGP and NTK are `exact` (N, M, 2), in units of the first inputs' own kernels (N, 2) and the second's (M, 2)."""
    second = first if second is None else second
    worst = [largest(v, exact[..., i], first[:, i], second[:, i]) for i, v in enumerate((found.nngp, found.ntk))]
    assert np.max(worst) <= limit, f"NNGP and NTK are off by {worst[0]:.1e} and {worst[1]:.1e}, allowed {limit}"


def assert_as_exact(net, x1, x2=None, *, engine, dtype, judge="reference", tolerance=None, own=None):
    """Kernels by `engine` in `dtype` are those by `judge` in float64 of the same numbers, which were rounded before.

    Returns the inputs' own kernels, by the judge unless they are given.
    """
    x1, x2 = (None if x is None else np.asarray(x, dtype) for x in (x1, x2))
    found = net.kernel(x1, x2, engine=engine)
    assert (found.engine, found.nngp.dtype, found.ntk.dtype) == (engine, dtype, dtype)
    if judge == "reference":
        exact, own = by_reference(net, x1, x2)
    else:
        exact = net.kernel(x1.astype(float), None if x2 is None else x2.astype(float), engine=judge)
        own = own or tuple(net.kernel_diagonal(x.astype(float), judge) for x in (x1, x1 if x2 is None else x2))
        assert all(np.isfinite((k.nngp, k.ntk)).all() for k in own)
    both = lambda k: np.stack([k.nngp, k.ntk], axis=-1)
    assert_within(TOLERANCES[np.dtype(dtype)] if tolerance is None else tolerance, found, both(exact), *map(both, own))
    if x2 is None:
        np.testing.assert_array_equal(found.nngp, found.nngp.T)
        np.testing.assert_array_equal(found.ntk, found.ntk.T)
    return own


def check_instruction_sets(steps, x1, x2):
    """Every variant of the CPU engine gives the kernels of the best one, which are returned in single precision."""
    for dtype, tolerance in TOLERANCES.items():
        a, b = x1.astype(dtype), x2.astype(dtype)
        best = run.kernels(steps, a, b)
        for number in range(len(run.instruction_sets())):
            for found, expected in zip(run.kernels(steps, a, b, instruction_set=number), best, strict=True):
                np.testing.assert_allclose(found, expected, rtol=tolerance)
    return best


def check_cpu(net, x1, x2=None, tolerance=None):
    """The CPU engine in float64 against the reference engine, and in float32, within `tolerance`, against float64."""
    own = assert_as_exact(net, x1, x2, engine="cpu", dtype=np.float64)
    assert_as_exact(net, x1, x2, engine="cpu", dtype=np.float32, judge="cpu", tolerance=tolerance, own=own)
