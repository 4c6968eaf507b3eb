"""Kernels on SO(3): time per pair of signals by both engines, beside all pairs of rotations, and its growth.

The published approach keeps the kernel of two signals at all pairs (R, R') of a grid of rotations, transforms it to
harmonics in both arguments at every convolution and cuts it at the bandlimit; here in dense matrix products. Relative
rotations alone suffice, which is what the package does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import equitangents as et
from equitangents.kernels.engines.select import engine_of
from equitangents.kernels.rotations.program import sections
from equitangents.kernels.threads import threads

LAYERS = 2
B_STD = 0.1


def signals(bandlimit: int, count: int, seed: int = 0) -> np.ndarray:
    """Like atoms of small molecules: eight neighbours, ten channels, mean variance 1."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(count, 8, 10)) * (rng.random((count, 8, 1)) < 0.8)
    c = np.asarray(et.sphere.from_directions(rng.normal(size=(count, 8, 3)), weights, bandlimit, 0.4))
    return (c / np.sqrt((c**2).sum((1, 2)).mean() / (40 * np.pi))).astype(np.float32)


def network(bandlimit: int, phi: et.nn.Layer, tolerance: float) -> et.nn.Sequential:
    """Two layers on SO(3)."""
    layers: list[et.nn.Layer] = [et.nn.SphereLift(et.groups.so3(bandlimit), 1, b_std=B_STD, tolerance=tolerance), phi]
    for _ in range(LAYERS - 1):
        layers += [et.nn.GroupConv(1, b_std=B_STD), phi]
    return et.nn.Sequential(*layers, et.nn.GroupPool(), et.nn.Dense(1))


def seconds(f: Callable[..., object], *args: object) -> float:
    """The shortest of three runs after a first one."""
    f(*args)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        f(*args)
        times.append(time.perf_counter() - start)
    return min(times)


def processor_seconds(f: Callable[..., object], *args: object) -> float:
    """The same, in time of all processors."""
    f(*args)
    times = []
    for _ in range(3):
        start = time.process_time()
        f(*args)
        times.append(time.process_time() - start)
    return min(times)


def all_pairs_of_rotations(c1: np.ndarray, c2: np.ndarray) -> float:
    """The NNGP kernel of one pair of signals (B², C) with Erf, over all pairs (R, R'), filters cut at the bandlimit."""
    bandlimit = round(len(c1) ** 0.5)
    group = et.groups.so3(bandlimit)
    D = np.concatenate([d.reshape(group.order, -1) for d in et.sphere.wigner(group.matrices, bandlimit)], axis=1)
    analysis = (D * group.weights[:, None]).T
    lifted = [et.sphere.rotate(c[None].astype(np.float64), group.matrices.transpose(0, 2, 1))[:, 0] for c in (c1, c2)]

    def apply(K: np.ndarray, q1: float, q2: float) -> np.ndarray:
        return 2 / np.pi * np.arcsin(2 * K / np.sqrt((1 + 2 * q1) * (1 + 2 * q2)))

    def convolve(K: np.ndarray) -> np.ndarray:
        harmonic = analysis @ K @ analysis.T
        out = np.zeros_like(harmonic)
        start = 0
        for l in range(bandlimit):
            n = 2 * l + 1
            here = slice(start, start := start + n * n)
            block = harmonic[here, here].reshape(n, n, n, n)
            mean = np.einsum("ikjk->ij", block) * n
            out[here, here] = np.einsum("ij,kl->ikjl", mean, np.eye(n)).reshape(n * n, n * n)
        return D @ out @ D.T

    norm = 4 * np.pi * c1.shape[-1]
    f, g = (x.reshape(group.order, -1) for x in lifted)
    K = f @ g.T / norm + B_STD**2
    q = [float((x[0] @ x[0]) / norm + B_STD**2) for x in (f, g)]
    for i in range(LAYERS):
        K = apply(K, *q)
        q = [float(2 / np.pi * np.arcsin(2 * v / (1 + 2 * v))) for v in q]
        if i < LAYERS - 1:
            K, q = convolve(K) + B_STD**2, [v + B_STD**2 for v in q]
    return float(group.weights @ K @ group.weights)


def narrow_windows(full: bool) -> None:
    """Two zonal windows narrower than the sphere, at a fixed resolution: microseconds of processor time for a pair."""
    print(
        "\nzonal windows exp(2(t - 1)), two layers, Relu, float32\n  B  resolution  µs per pair  plain JAX, µs  ratio"
    )
    for bandlimit, resolution in ((2, 2), (3, 3), (4, 4), (6, 5)) if full else ((2, 2), (3, 3), (4, 4)):
        window = lambda t: np.exp(2 * (t - 1))
        lift = et.nn.SphereLift(et.groups.so3(bandlimit), 1, window=window, b_std=B_STD, resolution=resolution)
        conv = et.nn.GroupConv(1, window=window, b_std=B_STD)
        net = et.nn.Sequential(lift, et.nn.Relu(), conv, et.nn.Relu(), et.nn.GroupPool(), et.nn.Dense(1))
        program = sections(net.lower((bandlimit**2, 10))[1])
        each = []
        for engine, count in (("cpu", 32), ("reference", 8)):
            c = signals(bandlimit, 2 * count)
            rules = engine_of(engine).rotations
            assert rules is not None
            each.append(processor_seconds(rules.kernels, program, resolution, c[:count], c[count:]) / count**2 * 1e6)
        print(f"{bandlimit:4d} {resolution:10d} {each[0]:12.1f} {each[1]:14.1f} {each[1] / each[0]:6.1f}", flush=True)


def main(full: bool = False) -> None:
    """Print the tables."""
    print(f"threads: {threads()}, float32, two layers, Erf and Relu")
    for name, phi in (("Erf", et.nn.Erf()), ("Relu", et.nn.Relu())):
        for tolerance in (1e-3, 1e-5) if full else (1e-3,):
            found = []
            print(f"\n{name}, tolerance {tolerance:.0e}")
            print("  B  nodes in cos β  error     µs per pair  molecule pairs/s (125 atom pairs)  plain JAX, µs  ratio")
            for bandlimit in (2, 4, 6, 8, 12, 16) if full else (2, 4, 6, 8):
                count = 160 if bandlimit <= 8 and tolerance > 1e-4 else 40
                net, c = network(bandlimit, phi, tolerance), signals(bandlimit, 2 * count)
                k = net.kernel(c[:count], c[count:])
                fixed = et.nn.Sequential(
                    et.nn.SphereLift(et.groups.so3(bandlimit), 1, b_std=B_STD, resolution=k.resolution), *net.layers[1:]
                )
                each, plain = (
                    seconds(lambda x, y, e=e, net=fixed: net.kernel(x, y, engine=e), c[:count], c[count:])
                    / count**2
                    * 1e6
                    for e in (None, "reference")
                )
                found.append((bandlimit, each))
                figures = f"{k.resolution:10d} {k.error_estimate:14.1e} {each:12.2f} {1e6 / (125 * each):16.0f}"
                figures += f" {plain:30.1f} {plain / each:6.1f}"
                print(f"{bandlimit:4d} {figures}")
            large = np.array([row for row in found if row[0] >= 4])
            print(f"  grows as B^{np.polyfit(np.log(large[:, 0]), np.log(large[:, 1]), 1)[0]:.1f} from B = 4")
    print("\nall pairs of rotations (R, R'), NNGP with Erf\n  B   ms per pair   difference of the kernels")
    rows = []
    for bandlimit in (2, 3, 4, 5, 6) if full else (2, 3, 4):
        c = signals(bandlimit, 2)
        each = seconds(all_pairs_of_rotations, c[0], c[1])
        rows.append((bandlimit, each))
        # the package's kernel of the same network, without the dense layer, which changes nothing at W_std = 1
        exact = (
            network(bandlimit, et.nn.Erf(), 1e-5).kernel(c[:1].astype(np.float64), c[1:].astype(np.float64)).nngp.item()
        )
        print(f"{bandlimit:4d} {1e3 * each:12.1f} {abs(all_pairs_of_rotations(c[0], c[1]) / exact - 1):18.1e}")
    x = np.log(np.array(rows))
    print(f"  grows as B^{np.polyfit(x[:, 0], x[:, 1], 1)[0]:.1f}")
    narrow_windows(full)


if __name__ == "__main__":
    main()
