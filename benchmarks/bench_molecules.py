"""Kernels of molecules: pairs per second, growth with bandlimit and atoms, beside sums over pairs of rotations.

Molecules are random, with QM9's composition: nine atoms C, N, O and as many H, about 125 pairs of atoms of one element
for two molecules. Two layers over SO(3) with Erf at tolerance 1e-3, one thread. The published approach evaluates both
signals at all rotations of its own grid and the layers on all pairs of rotations: here literally so, for a few pairs of
atoms. Seconds are of processor time, since other programs share the machine.
"""

from __future__ import annotations

import time

import numpy as np

import equitangents as et
from benchmarks.growth import exponent
from equitangents import nn
from equitangents.molecules import AtomSignals, Molecules, kernels

W_STD, HIDDEN, B_STD, TOLERANCE = 0.15, 1.5, 0.1, 1e-3


def network(bandlimit):
    """Two layers over SO(3)."""
    lift = nn.SphereLift(et.groups.so3(bandlimit), 8, W_std=W_STD, b_std=B_STD, tolerance=TOLERANCE)
    convolution = nn.GroupConv(8, W_std=HIDDEN, b_std=B_STD)
    return nn.Sequential(lift, nn.Erf(), convolution, nn.Erf(), nn.GroupPool(), nn.Dense(1))


def molecules(count, heavy=9, seed=0):
    """Random compact molecules: no two atoms closer than 1 Å."""
    rng = np.random.default_rng(seed)
    elements = np.array([6] * round(heavy * 0.7) + [7] * round(heavy * 0.13) + [8] * heavy)[:heavy]
    numbers = np.concatenate([elements, np.ones(heavy, int)])
    positions = []
    for _ in range(count):
        x = [np.zeros(3)]
        while len(x) < len(numbers):
            new = x[rng.integers(len(x))] + 1.3 * _direction(rng)
            if np.linalg.norm(np.array(x) - new, axis=1).min() > 1:
                x.append(new)
        positions.append(x)
    return Molecules(np.tile(numbers, (count, 1)), np.array(positions, np.float32))


def _direction(rng):
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def seconds_a_pair(bandlimit, count=16, heavy=9):
    """(Processor seconds of a pair of molecules, resolution)."""
    m, net = molecules(count, heavy), network(bandlimit)
    signals = AtomSignals(bandlimit, elements=m.elements)
    found = kernels(net, m, signals=signals)  # compiled once
    start = time.process_time()
    kernels(net, m, signals=signals)
    return (time.process_time() - start) / (count * (count + 1) / 2), found.resolution


def dense_seconds(bandlimit):
    """Of one pair of atoms, by explicit sums over all pairs of the group's own rotations."""
    group = et.groups.so3(bandlimit)
    c = AtomSignals(bandlimit)(molecules(1)).signals[:2].astype(float)
    start = time.process_time()
    turned = [et.sphere.rotate(np.repeat(x[None], group.order, 0), group.matrices) for x in c]
    a, b = (t.reshape(group.order, -1) / (4 * np.pi * c.shape[2]) ** 0.5 for t in turned)
    value = a @ b.T
    q1, q2 = (a * a).sum(1), (b * b).sum(1)
    w = np.asarray(group.weights)
    theta = None
    for scale in (W_STD, HIDDEN):
        value, q1, q2 = (scale**2 * v + B_STD**2 for v in (value, q1, q2))
        theta = value + (0 if theta is None else scale**2 * theta)
        root = np.sqrt((1 + 2 * q1)[:, None] * (1 + 2 * q2))
        slope = 4 / np.pi / np.sqrt((1 + 2 * q1)[:, None] * (1 + 2 * q2) - 4 * value**2)
        value, theta = 2 / np.pi * np.arcsin(2 * value / root), slope * theta
        q1, q2 = (2 / np.pi * np.arcsin(2 * q / (1 + 2 * q)) for q in (q1, q2))
        if scale == W_STD:  # a full window averages over what both are turned by
            value, theta = (np.full_like(v, w @ v @ w) for v in (value, theta))
    return time.process_time() - start, group.order


def main(full: bool = False) -> None:
    """Tables of rates and growth."""
    m = molecules(2)
    pairs = int((m.atomic_numbers[0][:, None] == m.atomic_numbers[1]).sum())
    found = []
    print(f"{pairs} pairs of atoms of one element a pair of molecules\n")
    print("| bandlimit | resolution | pairs of molecules a second | µs a pair of atoms |\n|---:|---:|---:|---:|")
    for bandlimit in (3, 4, 6, 8) if full else (3, 4, 6):
        seconds, resolution = seconds_a_pair(bandlimit)
        found.append((bandlimit, seconds))
        print(f"| {bandlimit} | {resolution} | {1 / seconds:.0f} | {1e6 * seconds / pairs:.1f} |", flush=True)
    print(f"\ngrowth with the bandlimit: exponent {exponent(found):.2f}")
    atoms = [(2 * heavy, seconds_a_pair(4, heavy=heavy)[0]) for heavy in ((4, 6, 9, 14) if full else (5, 9))]
    print(f"growth with atoms at bandlimit 4: exponent {exponent(atoms):.2f}")
    print("\n| bandlimit | rotations | explicit sums, s a pair of atoms | ours, times faster |\n|---:|---:|---:|---:|")
    dense = []
    for bandlimit in (2, 3, 4) if full else (2, 3):
        seconds, order = dense_seconds(bandlimit)
        dense.append((bandlimit, seconds))
        ours = dict(found).get(bandlimit)
        faster = "" if ours is None else f"{seconds * pairs / ours:,.0f}"
        print(f"| {bandlimit} | {order} | {seconds:.4f} | {faster} |", flush=True)
    print(f"\ngrowth of explicit sums with the bandlimit: exponent {exponent(dense):.2f}")


if __name__ == "__main__":
    main()
