"""Small groups written out by hand: lists of permutations or of plane motions, and their multiplication tables.

A permutation p sends i to p[i]; the product ab means b first, then a.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np


def closure(generators):
    """All products of the permutations given, the identity first."""
    identity = tuple(range(len(generators[0])))
    found, fresh = [identity], [identity]
    while fresh:
        fresh = [p for p in dict.fromkeys(product(a, b) for a in fresh for b in generators) if p not in found]
        found += fresh
    return found


def product(a, b):
    return tuple(a[i] for i in b)


def multiplication_table(elements, multiply=product):
    number = {e: i for i, e in enumerate(elements)}
    return np.array([[number[multiply(a, b)] for b in elements] for a in elements])


def s3():
    return list(itertools.permutations(range(3)))


def d4():
    """Turns and reflections of a square with corners 0, 1, 2, 3."""
    return closure([(1, 2, 3, 0), (0, 3, 2, 1)])


def q8():
    """±1, ±i, ±j, ±k (numbered 2·axis + sign) acting on themselves from the left."""
    # axis·axis -> (axis, sign flipped?)
    rule = {(0, a): (a, 0) for a in range(4)} | {(a, 0): (a, 0) for a in range(4)} | {(a, a): (0, 1) for a in (1, 2, 3)}
    for a, b, c in ((1, 2, 3), (2, 3, 1), (3, 1, 2)):
        rule[a, b], rule[b, a] = (c, 0), (c, 1)

    def left(x):
        return tuple(2 * rule[x // 2, y // 2][0] + (rule[x // 2, y // 2][1] + x % 2 + y % 2) % 2 for y in range(8))

    return [left(x) for x in range(8)]


def c3_times_c5():
    """Turns of three points and of five other points."""
    return closure([(1, 2, 0, 3, 4, 5, 6, 7), (0, 1, 2, 4, 5, 6, 7, 3)])


SMALL = {"S3": s3, "D4": d4, "Q8": q8, "C3xC5": c3_times_c5}

TURN = np.array([[0, -1], [1, 0]])  # (i, j) -> (−j, i): counter-clockwise, with rows counted downwards
FLIP = np.array([[1, 0], [0, -1]])  # (i, j) -> (i, −j)


def plane_motions(rotations, reflections, shape):
    """The motions x -> R^r F^s x + t of a torus, as tuples (r, s, (t_i, t_j))."""
    return [
        (r, s, t)
        for s in range(1 + reflections)
        for r in range(rotations)
        for t in itertools.product(range(shape[0]), range(shape[1]))
    ]


@functools.cache
def linear(r, s, rotations):
    return np.linalg.matrix_power(TURN, r * (4 // rotations)) @ np.linalg.matrix_power(FLIP, s)


@functools.cache
def multiply_linear(a, b, rotations):
    """(r, s) of b first, then a, both (r, s)."""
    product = linear(*a, rotations) @ linear(*b, rotations)
    s = (a[1] + b[1]) % 2
    return next(r for r in range(rotations) if (linear(r, s, rotations) == product).all()), s


def move(motion, x, rotations, shape):
    r, s, t = motion
    y = linear(r, s, rotations) @ x + t
    return int(y[0] % shape[0]), int(y[1] % shape[1])


def multiply_motions(a, b, rotations, shape):
    """b first, then a."""
    return *multiply_linear(a[:2], b[:2], rotations), move(a, b[2], rotations, shape)


def motion_table(rotations, reflections, shape):
    motions = plane_motions(rotations, reflections, shape)
    return multiplication_table(motions, lambda a, b: multiply_motions(a, b, rotations, shape))


def motion_positions(rotations, reflections, shape):
    """grid[g, x]: the row-major number of the pixel that the motion g sends pixel x to."""
    pixels = list(itertools.product(range(shape[0]), range(shape[1])))
    motions = plane_motions(rotations, reflections, shape)
    return np.array([[np.ravel_multi_index(move(g, x, rotations, shape), shape) for x in pixels] for g in motions])


def inverses(table):
    identity = int(np.flatnonzero((table == np.arange(len(table))).all(1))[0])
    return np.argmax(table == identity, axis=1)


def subgroup(table, generators):
    """The sorted elements that the given elements generate."""
    found = {int(np.flatnonzero((table == np.arange(len(table))).all(1))[0])}
    while True:
        larger = found | {int(table[a, g]) for a in found for g in generators}
        if larger == found:
            return sorted(found)
        found = larger


def left_cosets(table, elements):
    """labels[g]: the number of the coset gH, counted by first appearance."""
    labels = -np.ones(len(table), dtype=int)
    for g in range(len(table)):
        if labels[g] < 0:
            labels[table[g, elements]] = labels.max() + 1
    return labels


def coset_action(table, elements):
    """action[g, k] = the number of the coset g·(kth coset)."""
    labels = left_cosets(table, elements)
    first = [int(np.flatnonzero(labels == k)[0]) for k in range(labels.max() + 1)]
    return labels[table[:, first]]
