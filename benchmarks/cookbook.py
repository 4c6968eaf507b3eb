"""The regression of neural-tangents' cookbook notebook, as one script for both libraries.

`python cookbook.py equitangents` or `python cookbook.py neural_tangents`: five noisy points of a sine, an infinite
ensemble of three-layer networks with erf, its mean and deviation at infinite time, one random network's linearisation.
"""

import importlib
import json
import sys
import time

import numpy as np


def main(library: str) -> dict:
    """What the notebook prints, and the seconds that it took after imports."""
    nt = importlib.import_module(library)
    stax, predict = (importlib.import_module(f"{library}.{name}") for name in ("stax", "predict"))
    import jax

    rng = np.random.default_rng(10)
    train = rng.uniform(-np.pi, np.pi, (5, 1)).astype(np.float32)
    labels = (np.sin(train) + 0.1 * rng.standard_normal((5, 1))).astype(np.float32)
    test = np.linspace(-np.pi, np.pi, 50, dtype=np.float32)[:, None]
    start = time.perf_counter()
    init_fn, apply_fn, kernel_fn = stax.serial(
        stax.Dense(512, W_std=1.5, b_std=0.05), stax.Erf(),
        stax.Dense(512, W_std=1.5, b_std=0.05), stax.Erf(),
        stax.Dense(1, W_std=1.5, b_std=0.05),
    )  # fmt: skip
    ensemble = predict.gradient_descent_mse_ensemble(kernel_fn, train, labels, diag_reg=1e-4)
    mean, covariance = ensemble(x_test=test, get="ntk", compute_cov=True)
    early = ensemble(t=100.0, x_test=test, get="ntk")
    kernel = kernel_fn(train, None, "ntk")
    _, params = init_fn(jax.random.PRNGKey(0), (-1, 1))
    empirical = nt.empirical_ntk_fn(apply_fn)(train, None, params)
    linear = nt.linearize(apply_fn, params)(params, test)
    found = {
        "seconds": time.perf_counter() - start,
        "mean": np.asarray(mean).ravel().tolist(),
        "deviation": np.sqrt(np.maximum(np.diag(np.asarray(covariance)), 0)).tolist(),
        "mean at time 100": np.asarray(early).ravel().tolist(),
        "empirical kernel off the infinite one": float(np.abs(np.asarray(empirical) / np.asarray(kernel) - 1).max()),
        "linearisation off the network": float(np.abs(np.asarray(linear) - np.asarray(apply_fn(params, test))).max()),
    }
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
