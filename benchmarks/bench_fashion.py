"""Fashion-MNIST by the NTK of FCN with 8 layers, and by a Gaussian kernel beside GPyTorch and Falkon: all in one table.

Each contender has a process of its own: test accuracy on 10,000 images, seconds, processor seconds, the peak of memory
of the whole process, and the residual of its linear system. FCN keeps a float32 factor, half the memory, and refines
its solution with float64 entries that are computed anew; its predictions are compared with those of a float64 factor on
a subset. `--full` takes 60,000 training images and a subset of 20,000, otherwise 4,000 and 2,000.

Environments: build/gpytorch and build/falkon, made with what the lists `constraints-gpytorch.txt` and
`constraints-falkon.txt` name; EQUITANGENTS_GPYTORCH_PYTHON and EQUITANGENTS_FALKON_PYTHON name interpreters in their
place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import environment

_HERE = Path(__file__).parent
RIDGE, TEST = 1e-3, 10_000


def interpreter(name: str) -> str | None:
    """The Python with a library, None where there is none."""
    given = os.environ.get(f"EQUITANGENTS_{name.upper()}_PYTHON")
    return given or environment(name, _HERE / f"constraints-{name}.txt", ("torch", name))


def images(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(x, labels, test x, test labels) of Fashion-MNIST, rows of 784 numbers of mean 0 and variance 1 in all."""
    from equitangents import data

    source = data.load("fashion_mnist", os.environ.get("EQUITANGENTS_DATA"))
    x, test = (np.asarray(part, np.float32).reshape(len(part), -1) for part in (source.train_x, source.test_x[:TEST]))
    mean, std = x.mean(), x.std()
    rows = np.random.default_rng(0).permutation(len(x))[:count]
    return (x[rows] - mean) / std, source.train_y[rows], (test - mean) / std, source.test_y[:TEST]


def run(name: str, python: str, x: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Predictions of a contender, and what it says of itself; RuntimeError with its last words where it fails."""
    some = x[:1000]
    distances = np.sqrt(np.maximum((some**2).sum(1)[:, None] + (some**2).sum(1) - 2 * some @ some.T, 0))
    settings = {"ridge": RIDGE, "lengthscale": float(np.median(distances[np.triu_indices(len(some), 1)]))}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for part, array in (("x", x), ("y", np.eye(10)[y] - 0.1), ("test", test)):
            np.save(folder / f"{part}.npy", array)
        (folder / "settings.json").write_text(json.dumps(settings))
        command = [python, "-W", "ignore", str(_HERE / "regression_worker.py"), name, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'killed'}")
        return np.load(folder / "predictions.npy"), json.loads(done.stdout.splitlines()[-1])


def main(full: bool = False) -> None:
    """Print the table, then how far float32 predictions are from exact ones."""
    count, subset = (60_000, 20_000) if full else (4_000, 2_000)
    x, y, test, labels = images(count)
    print(f"{count:,} training images, {len(test):,} test images, ridge {RIDGE:g} of the kernel's mean diagonal")
    print(f"{'':<28}{'accuracy':>9}{'s':>9}{'processor s':>13}{'GB':>7}{'residual':>10}")
    ours = {"fcn": "FCN, NTK", "fcn-single": "FCN, NTK, float32 alone", "gaussian": "Gaussian"}
    theirs = {"gpytorch": "Gaussian, GPyTorch", "falkon": "Gaussian, Falkon"}
    for name, title in {**ours, **theirs}.items():
        python = sys.executable if name in ours else interpreter(name)
        if python is None:
            print(f"{title:<28}not installed")
            continue
        try:
            predictions, about = run(name, python, x, y, test)
        except RuntimeError as error:
            print(f"{title:<28}{error}")
            continue
        accuracy = float(np.mean(predictions.argmax(axis=1) == labels))
        print(
            f"{title:<28}{accuracy:>9.2%}{about['seconds']:>9.1f}{about['processor_seconds']:>13.1f}"
            f"{about['peak'] / 1e9:>7.2f}{about['residual']:>10.1e}  {about['solver']}",
            flush=True,
        )
    few = x[:subset], y[:subset], test
    exact, _ = run("fcn-exact", sys.executable, *few)
    for name in ("fcn", "fcn-single"):
        apart = float(np.max(np.abs(run(name, sys.executable, *few)[0] - exact)))
        print(f"{subset:,} images: {ours[name]} is within {apart:.1e} of a float64 factor")


if __name__ == "__main__":
    main("--full" in sys.argv)
