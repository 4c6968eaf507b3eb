"""Augmented ensembles solved irrep by irrep against the explicit problem of N|G| samples.

Both sides on the same network and data, in processor time of one thread; the ratios are of one run. With --full
(`python -m benchmarks.bench_augmentation --full`) also N = 2,000 under D4 with the covariance of 200 test orbits.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
RIDGE = 1e-3


def network() -> Any:
    """Two 3×3 convolutions with ReLU, flattened: a kernel that D4 leaves as it is."""
    from equitangents import nn

    convolutions = [nn.Conv(1, (3, 3), **WEIGHTS), nn.Relu()] * 2
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Dense(1))


def mlp() -> Any:
    from equitangents import nn

    return nn.Sequential(nn.Flatten(), *[nn.Dense(1, **WEIGHTS), nn.Relu()] * 2, nn.Dense(1))


def images(count: int, side: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, side, side, 1))


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def explicit_figures(n: int) -> None:
    """Seconds for the kernel and the eigendecomposition of the N|G| samples, and for those of the orbit average."""
    import equitangents as et
    from equitangents.inference import decompose

    net, action, x = network(), et.actions.image_dihedral(4), images(n)
    average = et.kernels.orbit_average(net, action)
    average.kernel(x[:2])  # loads the engine, checks the invariance
    kernel, theta = seconds(lambda: net.kernel(action.orbit(x).reshape(-1, *x.shape[1:])).ntk)
    solve, _ = seconds(lambda: decompose(theta, ridge=RIDGE))
    averaged, theta = seconds(lambda: average.kernel(x).ntk)
    small, _ = seconds(lambda: decompose(theta, ridge=RIDGE))
    print(f"{n:>6}{8 * n:>9}{kernel:>12.2f}{averaged:>10.2f}{kernel / averaged:>8.1f}", end="")
    print(f"{solve:>12.2f}{small:>10.3f}{solve / small:>8.0f}", flush=True)


def all_irreps(n: int, group: Any, side: int) -> None:
    """Mean, covariance and stds of an MLP under a wallpaper group of the torus."""
    import equitangents as et

    action, x, y = et.actions.grid(group), images(n, side), np.random.default_rng(1).standard_normal(n)
    model = et.InfiniteEnsemble(mlp(), augmentation=action, time=100.0, ridge=RIDGE)
    fit, _ = seconds(lambda: model.fit(x, y))
    irreps, blocks = seconds(lambda: model.covariance_solver_)
    std, _ = seconds(lambda: model.predict(images(20, side, 2), return_std=True))
    print(f"{n:>6}{group.order:>6}{n * group.order:>9}{fit:>10.2f}{irreps:>10.2f}{std:>12.2f}   {blocks}", flush=True)


def full() -> None:
    """N = 2,000 under D4: from the data to the joint covariance of 200 orbits; then the explicit 16,000 samples."""
    import equitangents as et
    from equitangents.inference import decompose

    action, x, y = et.actions.image_dihedral(4), images(2000), np.random.default_rng(1).standard_normal(2000)
    start = time.perf_counter()
    model = et.InfiniteEnsemble(network(), augmentation=action, time=100.0, ridge=RIDGE)
    fit, _ = seconds(lambda: model.fit(x, y))
    irreps, _ = seconds(lambda: model.predict(x[:1], return_std=True))
    orbits, (_, covariance) = seconds(lambda: model.predict_joint_orbits(images(200, seed=2)))
    wall, here = time.perf_counter() - start, fit + irreps + orbits
    print(f"N = 2000 under D4, joint covariance of 200 orbits {covariance.shape}, by {model.covariance_solver_}")
    print(f"  mean {fit:.0f} s, irreps {irreps:.0f} s, orbits {orbits:.0f} s; ", end="")
    print(f"{wall:.0f} s by the clock, peak {_peak():.1f} GiB", flush=True)
    kernel, theta = seconds(lambda: network().kernel(action.orbit(x).reshape(-1, *x.shape[1:])).ntk)
    solve, _ = seconds(lambda: decompose(theta, ridge=RIDGE))
    print(
        f"  the explicit 16,000 samples: kernel {kernel:.0f} s, eigendecomposition {solve:.0f} s, without any ", end=""
    )
    print(f"prediction {(kernel + solve) / here:.0f} times the {here:.0f} s here; peak {_peak():.1f} GiB")


def _peak() -> float:
    """The most memory that this process ever held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(*, whole: bool = False) -> None:
    """Growth in N under D4, then growth in |G| for p4 on tori."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from equitangents import groups

    print("mean for invariant labels under D4; s of processor time")
    print(f"{'N':>6}{'N|G|':>9}{'kernel':>12}{'average':>10}{'ratio':>8}{'solve':>12}{'N×N':>10}{'ratio':>8}")
    explicit_figures(50)
    for n in (100, 200, 400):
        explicit_figures(n)
    print("\nmean, irreps of the group, and stds of 20 inputs under p4")
    print(f"{'N':>6}{'|G|':>6}{'N|G|':>9}{'mean':>10}{'irreps':>10}{'covariance':>12}")
    for count, side in ((50, 4), (50, 8), (100, 8), (200, 8), (50, 16)):
        all_irreps(count, groups.wallpaper(4, False, (side, side)), side)
    if whole:
        print()
        full()


if __name__ == "__main__":
    main(whole="--full" in sys.argv[1:])
