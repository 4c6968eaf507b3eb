"""Functions of the user's against erf in closed form: processor time of kernels by the C++ engine, and their ratio.

Medians of turns that take each other's place, of one thread; what a function's table takes once comes first.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import jax
import numpy as np

from equitangents import nn

TURNS = 7
FUNCTIONS = {"tanh": jax.numpy.tanh, "softplus": jax.nn.softplus}
CASES = {  # hidden layers, what follows them, shape of an input, and how many
    "dense, 1000 of 20": (lambda: nn.Dense(1, W_std=1.2, b_std=0.1), (), (20,), 1000),
    "convolutions, flatten, 100 of 8×8×3": (lambda: nn.Conv(1, (3, 3), W_std=1.2), (nn.Flatten(),), (8, 8, 3), 100),
    "convolutions, pool, 16 of 8×8×3": (lambda: nn.Conv(1, (3, 3), W_std=1.2), (nn.GlobalAvgPool(),), (8, 8, 3), 16),
}


def medians(nets: dict[str, nn.Sequential], x: np.ndarray) -> dict[str, float]:
    """Milliseconds of processor time of each network's kernel, after one that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in nets}
    for turn in range(1 + TURNS):
        for name, net in nets.items():
            start = time.process_time()
            net.kernel(x, engine="cpu")
            if turn:
                times[name].append(1e3 * (time.process_time() - start))
    return {name: float(np.median(values)) for name, values in times.items()}


def main() -> None:
    """One row for each case and precision."""
    functions = {name: nn.Elementwise(fn) for name, fn in FUNCTIONS.items()}
    for name, phi in functions.items():
        start = time.process_time()
        nn.Sequential(nn.Dense(1), phi, nn.Dense(1)).kernel(np.ones((1, 2)), engine="cpu")
        print(f"table of {name}: {time.process_time() - start:.1f} s, once")
    print(f"| two layers | erf, ms |{''.join(f' {name} / erf |' for name in functions)}\n|---|---:|{'---:|' * 2}")
    for case, (hidden, readout, shape, count) in CASES.items():
        for dtype in ("float64", "float32"):
            x = np.random.default_rng(0).standard_normal((count, *shape)).astype(dtype)
            nets = {
                name: nn.Sequential(hidden(), phi, hidden(), phi, *readout, nn.Dense(1))
                for name, phi in {"erf": nn.Erf(), **functions}.items()
            }
            took = medians(nets, x)
            cells = "".join(f" {took[name] / took['erf']:.2f} |" for name in functions)
            print(f"| {case}, {dtype} | {took['erf']:.1f} |{cells}", flush=True)


if __name__ == "__main__":
    main()
