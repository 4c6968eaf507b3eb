"""Empirical tangent kernels by one library, in its interpreter: JSON to standard output, values to a file.

`python empirical_worker.py equitangents VALUES.npz` or `python empirical_worker.py neural_tangents VALUES.npz`. The
kinds of networks are those of *Fast finite width neural tangent kernel* (Novak et al. 2022), as small as one core does
in seconds: fully connected ones, and convolutions with global average pooling.
"""

import importlib
import json
import sys
import time
from typing import Any

import numpy as np

WAYS = {"jacobians": 1, "vectors": 2, "structured": 3}
SHAPE, INPUTS, RUNS = (8, 8, 3), 8, 3


def fcn(width: int, outputs: int) -> str:
    """Three hidden layers on flat inputs."""
    hidden = f"stax.Dense({width}), stax.Relu(), "
    return f"stax.serial(stax.Flatten(), {3 * hidden}stax.Dense({outputs}))"


def cnn(channels: int, outputs: int) -> str:
    """Three convolutions of 3 × 3 with zero padding, and their mean."""
    hidden = f"stax.Conv({channels}, (3, 3), padding='SAME'), stax.Relu(), "
    return f"stax.serial({3 * hidden}stax.GlobalAvgPool(), stax.Dense({outputs}))"


CASES = {
    "FCN, width 256, 1 output": fcn(256, 1),
    "FCN, width 256, 10 outputs": fcn(256, 10),
    "CNN, 16 channels, 1 output": cnn(16, 1),
    "CNN, 16 channels, 10 outputs": cnn(16, 10),
}


def main(library: str, values: str) -> list[dict]:
    """Median processor seconds of the three ways, compiled, (N, N, outputs, outputs) in float32; or what is raised."""
    import jax

    package, stax = importlib.import_module(library), importlib.import_module(f"{library}.stax")
    x = np.random.default_rng(0).standard_normal((2, INPUTS, *SHAPE)).astype(np.float32)
    ours, found = library == "equitangents", []
    kernels: dict[str, np.ndarray] = {}
    for name, network in CASES.items():
        init_fn, apply_fn, _ = eval(network, {"stax": stax})
        params = _drawn(init_fn(jax.random.PRNGKey(0), (1, *SHAPE))[1])
        row: dict = {"name": name}
        for way in (*WAYS, "auto") if ours else WAYS:
            settings = {"implementation": way} if ours else {"implementation": WAYS[way], "vmap_axes": 0}
            ntk_fn = jax.jit(package.empirical_ntk_fn(apply_fn, trace_axes=(), **settings))
            times = []
            try:
                for _ in range(1 + RUNS):
                    start = time.process_time()
                    kernels[f"{name}/{way}"] = np.asarray(ntk_fn(x[0], x[1], params))
                    times.append(time.process_time() - start)
                row[way] = float(np.median(times[1:]))
            except Exception as error:
                row[way] = type(error).__name__
        found.append(row)
    np.savez(values, **kernels)  # type: ignore[arg-type]
    return found


def _drawn(params: Any) -> Any:
    """The same numbers in both libraries, whatever they are initialised with."""
    import jax

    rng = np.random.default_rng(1)
    return jax.tree.map(lambda p: rng.standard_normal(p.shape).astype(np.float32), params)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:3])))
