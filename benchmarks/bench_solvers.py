"""Every solver beside SciPy's cho_factor and cho_solve on the same kernel matrix: processor time, memory, accuracy.

The NTK of an MLP on N inputs, 10 right-hand sides, ridge 1e-3. Times are processor time over SciPy's in float64;
memory is the peak of what Python allocates beside the matrix, over that of one float64 matrix.
"""

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

OUTPUTS, RIDGE = 10, 1e-3


@dataclass(frozen=True)
class Measured:
    """Processor seconds, the peak of memory in bytes, and what was returned."""

    seconds: float
    memory: int
    result: Any


def measure(run: Callable[[], Any]) -> Measured:
    """One call; NumPy's and LAPACK's arrays are traced, without cost for what they compute."""
    tracemalloc.start()
    start = time.process_time()
    result = run()
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Measured(seconds, peak, result)


def problem(n: int) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """(network, inputs (n, 20), NTK, targets): smooth functions with some noise."""
    from equitangents import nn

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 20))
    net = nn.Sequential(*[nn.Dense(1, W_std=2**0.5, b_std=0.1), nn.Relu()] * 2, nn.Dense(1))
    y = np.sin(x @ rng.normal(size=(20, OUTPUTS)) / 2) + 0.1 * rng.normal(size=(n, OUTPUTS))
    return net, x, np.array(net.kernel(x).ntk), y


def by_scipy(theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(Θ + δ)⁻¹ Y, with a copy of the matrix."""
    shifted = theta + RIDGE * np.trace(theta) / len(theta) * np.eye(len(theta))
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(shifted, overwrite_a=True, check_finite=False), y)


def rows(n: int, large: bool) -> None:
    """One row for each solver of a matrix of n rows; `large`: without the decomposition."""
    from equitangents import solvers

    net, x, theta, y = problem(n)
    base = measure(lambda: by_scipy(theta, y))
    matrix = theta.nbytes
    print(f"N = {n:,}: SciPy {base.seconds:.2f} s of processor time, {base.memory / matrix:.2f} matrices")
    print(f"{'solver':<36}{'time/SciPy':>11}{'matrices':>10}{'difference':>12}{'residual':>10}{'steps':>7}")
    with tempfile.TemporaryDirectory() as folder:
        on_disk = solvers.OutOfCore(path=Path(folder), tile=max(64, n // 8))
        cases: dict[str, tuple[Any, Any, dict[str, Any]]] = {
            "cholesky": (theta, "cholesky", {}),
            "cholesky, in place": (theta.copy(), "cholesky", {"overwrite": True}),
            "cholesky, float32 and refinement": (theta, solvers.Cholesky(precision="float32"), {}),
            "cholesky, float32 in place": (
                theta.astype(np.float32),
                solvers.Cholesky(precision="float32"),
                {"overwrite": True},
            ),
            "out-of-core": (theta, on_disk, {}),
            "pcg, randomly pivoted Cholesky": (theta, "pcg", {}),
            "pcg, tiles computed anew": ((net, x), "pcg", {}),
            "lanczos, time = N": (theta, "lanczos", {"time": float(n)}),
            "nystrom": (theta, "nystrom", {}),
            "nystrom, columns computed": ((net, x), "nystrom", {}),
        }
        if not large:
            cases["eigh"] = (theta, "eigh", {})
        for name, (given, how, more) in cases.items():

            def run(given: Any = given, how: Any = how, more: dict[str, Any] = more) -> Any:
                return solvers.solve(given, y, ridge=RIDGE, solver=how, memory_limit=2**36, **more)

            found = measure(run)
            solution, report = found.result, found.result.report
            difference = float("nan")
            if "time" not in more:
                weights = solution.coefficients
                means = theta @ weights if solution.support is None else theta[:, solution.support] @ weights
                difference = float(np.linalg.norm(means - theta @ base.result) / np.linalg.norm(y))
            print(
                f"{name:<36}{found.seconds / base.seconds:>11.2f}{found.memory / matrix:>10.2f}{difference:>12.1e}"
                f"{report.residual:>10.1e}{report.iterations:>7}"
                + (f"  estimated error {report.error:.1e}" if report.error else "")
            )


def main(full: bool = False) -> None:
    """N = 1,500 and 3,000; with --full also 6,000 and 12,000, without the decomposition."""
    print("difference: of predictions on the training inputs from SciPy's, over the targets")
    for n in (1500, 3000, *((6000, 12_000) if full else ())):
        rows(n, large=n > 3000)
