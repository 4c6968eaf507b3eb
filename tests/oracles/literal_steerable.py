"""Kernels of steerable networks by literal sums over points, kernels and Gaussian moments, in NumPy.

A state is {irrep: (K, Θ)}, (P, P', d, d); layers are tuples that begin with their kind. Duals: of numbers by formulas
of the textbook for erf, of vectors by the joint covariance under Gaussian weights and the theorem of Isserlis.
"""

import itertools

import numpy as np

from equitangents.steerable import Features
from equitangents.steerable.angular import angular_kernels
from equitangents.steerable.features import SPACES, trivial
from equitangents.steerable.harmonics import samples


def kernels(features, layers, x1, x2):
    """(NNGP, NTK) of one pair of inputs: {irrep: (d, d)} each, by literal sums, of a network that ends on one point."""
    fields = fields_of(features, layers, x1, x2)
    return tuple({kind: field[0, 0] for kind, field in part.items()} for part in fields)


def fields_of(features, layers, x1, x2):
    """(NNGP, NTK) at all points of one pair of inputs: {irrep: (P, P', d, d)} each.

    x (P, n + channels) are points, (channels,) features of a whole input, which count as one point at the origin.
    """
    features = Features(features)
    if x1.ndim == 1:
        x1, x2 = (np.concatenate([np.zeros(features.space), x])[None] for x in (x1, x2))
    pairs = {(a, b): _start(features, u, v) for (a, u), (b, v) in itertools.product(enumerate((x1, x2)), repeat=2)}
    pairs = _run(layers, pairs, [x[:, : features.space] for x in (x1, x2)], features.group)
    return tuple({kind: field[part] for kind, field in pairs[0, 1].items()} for part in range(2))


def _run(layers, pairs, points, group):
    """The kernels {(a, b): state} of both inputs after layers; ("branches", …) are summed."""
    for kind, *settings in layers:
        if kind == "branches":
            branches = [_run(branch, pairs, points, group) for branch in settings]
            pairs = {at: _added([branch[at] for branch in branches]) for at in pairs}
            continue
        states = {}
        for a, b in pairs:
            own = pairs[a, a], pairs[b, b]
            states[a, b] = _STEPS[kind](pairs[a, b], own, (points[a], points[b]), group, *settings)
        pairs = states
    return pairs


def _added(states):
    return {kind: tuple(sum(state[kind][part] for state in states) for part in range(2)) for kind in states[0]}


def _start(features, x1, x2):
    a, b = (features.split(x[:, features.space :]) for x in (x1, x2))
    k = {kind: np.einsum("ica,jcb->ijab", a[kind], b[kind]) / n for n, kind in features.entries}
    return {kind: (value, np.zeros_like(value)) for kind, value in k.items()}


def _kappas(a, b, offset, radii, width):
    """All kernels from irrep b to irrep a at one offset, as matrices."""
    r = np.linalg.norm(offset)
    for kernel, radius in itertools.product(angular_kernels(a, b), radii):
        ring = np.exp(-((r - radius) ** 2) / (2 * width**2))
        if r == 0:
            flat = kernel(np.eye(len(offset))[0]) if kernel.frequency == 0 else np.zeros((a.dimension, b.dimension))
            yield ring * flat
        else:
            yield ring * kernel(offset / r)


def _conv(state, own, points, group, out, radii, width, W, b):
    after = {}
    for to in Features(out, group).irreps:
        count = sum(len(angular_kernels(to, kind)) for kind in state) * len(radii)
        shape = (len(points[0]), len(points[1]), to.dimension, to.dimension)
        sums = np.zeros((2, *shape))
        for (i, p), (j, q) in itertools.product(enumerate(points[0]), enumerate(points[1])):
            for kind, fields in state.items():
                for (m, u), (n, v) in itertools.product(enumerate(points[0]), enumerate(points[1])):
                    left = _kappas(to, kind, u - p, radii, width)
                    right = _kappas(to, kind, v - q, radii, width)
                    for f, g in zip(left, right, strict=True):
                        for part in range(2):
                            sums[part, i, j] += f @ fields[part][m, n] @ g.T
        k = W**2 / count * sums[0] + (b**2 if to == trivial(group) else 0)
        after[to] = (k, k + W**2 / count * sums[1])
    return after


def _dense(state, own, points, group, out, W, b):
    after = {}
    for to in Features(out, group).irreps:
        maps = [k(np.eye(SPACES[group])[0]) for k in angular_kernels(to, to, 0)]
        k, theta = (W**2 / len(maps) * sum(m @ f @ m.T for m in maps) for f in state[to])
        k = k + (b**2 if to == trivial(group) else 0)
        after[to] = (k, k + theta)
    return after


def _mean(state, own, points, group):
    return {kind: tuple(f.mean((0, 1), keepdims=True) for f in fields) for kind, fields in state.items()}


def _each(state, own, dual):
    """{irrep: fields} with `dual(Q, Q', K, Θ)` at every pair of points."""
    after = {}
    for kind, (k, theta) in state.items():
        found = np.zeros((2, *k.shape))
        for i, j in np.ndindex(k.shape[:2]):
            found[:, i, j] = dual(own[0][kind][0][i, i], own[1][kind][0][j, j], k[i, j], theta[i, j])
        after[kind] = tuple(found)
    return after


def erf_dual(q1, q2, k):
    """(E[erf(u) erf(v)], E[erf'(u) erf'(v)])."""
    determinant = (1 + 2 * q1) * (1 + 2 * q2) - 4 * k * k
    return 2 / np.pi * np.arcsin(2 * k / np.sqrt((1 + 2 * q1) * (1 + 2 * q2))), 4 / np.pi / np.sqrt(determinant)


def _gate(state, own, points, group, scalars):
    """Numbers (if `scalars`) and gates through erf."""
    number = trivial(group)
    k0, theta0 = (f[:, :, 0, 0] for f in state[number])
    q1, q2 = (np.diagonal(o[number][0][:, :, 0, 0]) for o in own)
    value, slope = erf_dual(q1[:, None], q2[None], k0)
    after = {}
    for kind, (k, theta) in state.items():
        if kind != number:
            v, s = value[..., None, None], (slope * theta0)[..., None, None]
            after[kind] = (v * k, v * theta + s * k)
        elif scalars:
            after[kind] = (value[..., None, None], (slope * theta0)[..., None, None])
    return after


def _fourier(state, own, points, group, resolution):
    """Signals on directions through erf, direction by direction."""
    grid = samples(SPACES[group], resolution, max(kind.degree for kind in state))
    h = {kind: grid.harmonics[kind.degree] for kind in state}
    after = {kind: np.zeros((2, *k.shape)) for kind, (k, _) in state.items()}
    first = next(iter(state.values()))[0]
    for i, j in np.ndindex(first.shape[:2]):
        for (s, ws), (t, wt) in itertools.product(enumerate(grid.weights), repeat=2):
            k, theta = (sum(h[kind][s] @ state[kind][part][i, j] @ h[kind][t] for kind in state) for part in range(2))
            q1 = sum(h[kind][s] @ own[0][kind][0][i, i] @ h[kind][s] for kind in state)
            q2 = sum(h[kind][t] @ own[1][kind][0][j, j] @ h[kind][t] for kind in state)
            value, slope = erf_dual(q1, q2, k)
            for kind in state:
                outer = ws * wt * np.outer(h[kind][s], h[kind][t])
                after[kind][0, i, j] += value * outer
                after[kind][1, i, j] += slope * theta * outer
    return {kind: tuple(found) for kind, found in after.items()}


def gaussians_dual(coefficients, rates, q1, q2, k, theta):
    """E[φφᵀ] and E[Dφ Θ Dφᵀ] of φ(u) = u Σ c exp(-t|u|²)."""
    d = len(q1)
    joint = np.block([[q1, k], [k.T, q2]])
    value, slope = np.zeros((d, d)), np.zeros((d, d))
    for (c1, t1), (c2, t2) in itertools.product(zip(coefficients, rates, strict=True), repeat=2):
        tilt = np.eye(2 * d) + 2 * joint @ np.diag([t1] * d + [t2] * d)
        s = np.linalg.inv(tilt) @ joint
        mass = c1 * c2 / np.sqrt(np.linalg.det(tilt))
        value += mass * s[:d, d:]
        for a, b, m, n in itertools.product(range(d), repeat=4):
            v, w = b + d, n + d  # u_a u_m and v_n v_b
            fourth = s[a, m] * s[w, v] + s[a, w] * s[m, v] + s[a, v] * s[m, w]
            moment = (a == m) * (b == n) - 2 * t1 * s[a, m] * (b == n) - 2 * t2 * s[w, v] * (a == m)
            slope[a, b] += mass * (moment + 4 * t1 * t2 * fourth) * theta[m, n]
    return value, slope


def _norm(state, own, points, group, coefficients, rates):
    return _each(state, own, lambda *fields: gaussians_dual(coefficients, rates, *fields))


_STEPS = {"conv": _conv, "dense": _dense, "mean": _mean, "gate": _gate, "fourier": _fourier, "norm": _norm}
