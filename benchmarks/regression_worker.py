"""One contender of the benchmark `fashion`, in a process and an interpreter of its own.

`regression_worker.py NAME FOLDER`: FOLDER holds x.npy, y.npy, test.npy and settings.json (ridge, lengthscale). What
comes back is a line of JSON, and predictions.npy. The contender is imported when it is known.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 1000  # of test images predicted at once
Found = tuple[np.ndarray, dict[str, Any]]


def fcn(entries: str, solver: Callable[[], Any]) -> Callable[..., Found]:
    """The NTK of FCN, 8 hidden layers; `entries` is the precision of inputs and of entries that are not kept."""

    def solve(x: np.ndarray, y: np.ndarray, test: np.ndarray, ridge: float, lengthscale: float) -> Found:
        from equitangents_studies.systems import architecture

        return _solved(architecture("FCN", depth=8), x.astype(entries), y, test.astype(entries), ridge, solver())

    return solve


def factor(precision: str) -> Any:
    """A Cholesky factor in this precision; one in float32 is refined with entries in that of the inputs."""
    from equitangents.solvers import Cholesky

    return Cholesky(precision=precision)


def gaussian(x: np.ndarray, y: np.ndarray, test: np.ndarray, ridge: float, lengthscale: float) -> Found:
    """exp(−|x − x′|²/2ℓ²), by the same solver as the NTK."""
    from equitangents.kernels.result import Kernels

    class Gaussian:
        def kernel(self, x1: np.ndarray, x2: np.ndarray | None = None) -> Kernels:
            x2 = x1 if x2 is None else x2
            values = _gaussian(x1, x2, lengthscale)
            return Kernels(values, values)

    return _solved(Gaussian(), x, y, test, ridge, factor("float32"))


def _solved(kernel: Any, x: np.ndarray, y: np.ndarray, test: np.ndarray, ridge: float, solver: Any) -> Found:
    from equitangents import solvers

    solution = solvers.solve((kernel, x), y, ridge=ridge, solver=solver, memory_limit=16 * 10**9)
    parts = [np.asarray(kernel.kernel(z, x).ntk, np.float64) @ solution.coefficients for z in _parts(test)]
    report = solution.report
    about = {"solver": f"{report.solver}, {report.precision}", "residual": report.residual, "steps": report.iterations}
    return np.concatenate(parts), about


def gpytorch(x: np.ndarray, y: np.ndarray, test: np.ndarray, ridge: float, lengthscale: float) -> Found:
    """The mean of GPyTorch's exact process: preconditioned conjugate gradients, on a matrix in memory."""
    import torch
    from gpytorch import kernels, settings

    kernel = kernels.RBFKernel()
    kernel.lengthscale = lengthscale
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y.astype(x.dtype))
    accurate = settings.cg_tolerance(1e-4), settings.max_cg_iterations(1000)
    iterative = settings.max_cholesky_size(0), settings.max_preconditioner_size(100)
    with torch.no_grad(), accurate[0], accurate[1], iterative[0], iterative[1]:
        system = kernel(inputs).evaluate_kernel().add_jitter(ridge)
        weights = system.solve(targets)
        parts = [(kernel(torch.from_numpy(z), inputs).to_dense() @ weights).numpy() for z in _parts(test)]
    residual = _residual(x, y, weights.numpy(), ridge, lengthscale)
    return np.concatenate(parts), {"solver": "conjugate gradients, float32", "residual": residual}


def falkon(x: np.ndarray, y: np.ndarray, test: np.ndarray, ridge: float, lengthscale: float) -> Found:
    """Falkon: a Nyström approximation on 10 √N centres, by preconditioned conjugate gradients."""
    import torch
    from falkon import Falkon, FalkonOptions
    from falkon.kernels import GaussianKernel

    centres = min(len(x), int(10 * np.sqrt(len(x))))
    model = Falkon(
        kernel=GaussianKernel(lengthscale), penalty=ridge / len(x), M=centres, options=FalkonOptions(use_cpu=True)
    )
    model.fit(torch.from_numpy(x), torch.from_numpy(y.astype(x.dtype)))
    parts = [model.predict(torch.from_numpy(z)).numpy() for z in _parts(test)]
    return np.concatenate(parts), {"solver": f"Nyström on {centres} centres, float32", "residual": float("nan")}


def _gaussian(a: np.ndarray, b: np.ndarray, lengthscale: float) -> np.ndarray:
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    squares *= -0.5 / lengthscale**2
    np.minimum(squares, 0, out=squares)
    return np.exp(squares, out=squares)


def _residual(x: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float, lengthscale: float) -> float:
    """The largest relative residual of the linear system, in float64 but for the kernel's own entries."""
    weights = weights.astype(np.float64)
    images = np.concatenate([_gaussian(part, x, lengthscale).astype(np.float64) @ weights for part in _parts(x)])
    return float(np.max(np.linalg.norm(y - images - ridge * weights, axis=0) / np.linalg.norm(y, axis=0)))


def _parts(x: np.ndarray) -> Iterator[np.ndarray]:
    return (x[start : start + ROWS] for start in range(0, len(x), ROWS))


CONTENDERS: dict[str, Callable[..., Found]] = {
    "fcn": fcn("float64", partial(factor, "float32")),
    "fcn-exact": fcn("float64", partial(factor, "float64")),
    "fcn-single": fcn("float32", partial(factor, "float32")),
    "fcn-pcg": fcn("float32", lambda: "pcg"),
    "gaussian": gaussian,
    "gpytorch": gpytorch,
    "falkon": falkon,
}


def main(name: str, folder: Path) -> None:
    """Compute, and say how long that took and how much memory the process had at most."""
    settings = json.loads((folder / "settings.json").read_text())
    x, y, test = (np.load(folder / f"{part}.npy") for part in ("x", "y", "test"))
    begin, processor = time.monotonic(), time.process_time()
    predictions, about = CONTENDERS[name](x, y, test, **settings)
    took = {"seconds": time.monotonic() - begin, "processor_seconds": time.process_time() - processor}
    np.save(folder / "predictions.npy", predictions)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**took, "peak": peak, **about}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
