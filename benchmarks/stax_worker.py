"""Kernels of every layer of `stax` by one library, in its interpreter: JSON to standard output, values to a file.

`python stax_worker.py equitangents VALUES.npz` or `python stax_worker.py neural_tangents VALUES.npz`; with `myrtle`
behind it the networks of *Neural kernels without tangents* on images of 32×32×3, in both precisions; with `calls` what
a call on few inputs costs, and with `compiled` that by `jax.jit`, which is always the peer's.
"""

import importlib
import json
import sys
import time

import numpy as np

_CONV = "stax.Conv(4, (3,), padding='SAME', W_std=1.3, b_std=0.2)"
_ACTIVATIONS = (
    "Relu()", "LeakyRelu(0.1)", "Abs()", "ABRelu(-0.5, 2.0)", "Erf(2.0, 0.5)", "Gelu()", "Sin(1.0, 0.7)",
    "Cos(1.0, 0.7)",
    "Rbf(0.4)", "Exp(1.0, 0.5)", "Gaussian()", "ExpNormalized()", "Monomial(3)", "Polynomial([0.1, 1.0, 0.2])",
    "Sigmoid_like()", "Gabor()", "LayerNorm(), stax.Hermite(3)", "Hermite(3)", "RectifiedMonomial(1)",
    "RectifiedMonomial(2)", "Sign()", "Identity()", "ElementwiseNumerical(jax.numpy.tanh, 15)",
    "ElementwiseNumerical(jax.numpy.tanh, 60)",
    "Dropout(0.7, mode='test')",
)  # fmt: skip
CASES: dict[str, str] = {
    **{a: f"stax.serial({_CONV}, stax.{a}, stax.Flatten(), stax.Dense(1))" for a in _ACTIVATIONS},
    "Conv VALID, strides": "stax.serial(stax.Conv(4, (3,), (2,)), stax.Relu(), stax.Flatten(), stax.Dense(1))",
    "Conv CIRCULAR": "stax.serial(stax.Conv(4, (3,), padding='CIRCULAR'), stax.Relu(), stax.Flatten(), stax.Dense(1))",
    "ConvLocal": "stax.serial(stax.ConvLocal(4, (3,), padding='SAME'), stax.Relu(), stax.Flatten(), stax.Dense(1))",
    "AvgPool": f"stax.serial({_CONV}, stax.Relu(), stax.AvgPool((2,), (2,)), {_CONV}, stax.Relu(), stax.Flatten())",
    "SumPool": f"stax.serial({_CONV}, stax.Relu(), stax.SumPool((2,), (2,)), {_CONV}, stax.Relu(), stax.Flatten())",
    "GlobalAvgPool": f"stax.serial({_CONV}, stax.Relu(), stax.GlobalAvgPool(), stax.Dense(1))",
    "GlobalSumPool": f"stax.serial({_CONV}, stax.Relu(), stax.GlobalSumPool(), stax.Dense(1))",
    "LayerNorm": f"stax.serial({_CONV}, stax.LayerNorm(), stax.Relu(), stax.Flatten(), stax.Dense(1))",
    "LayerNorm over positions": f"stax.serial({_CONV}, stax.LayerNorm((1, 2)), stax.Relu(), stax.Flatten())",
    "GlobalSelfAttention": f"stax.serial({_CONV}, stax.GlobalSelfAttention(4, 4, 4, 2), stax.Relu(), stax.Flatten())",
    "residual": f"stax.serial({_CONV}, stax.FanOut(2), stax.parallel(stax.serial(stax.Relu(), {_CONV}), "
    "stax.Identity()), stax.FanInSum(), stax.Relu(), stax.Flatten(), stax.Dense(1))",
    "FanInConcat": f"stax.serial({_CONV}, stax.FanOut(2), stax.parallel(stax.serial(stax.Relu(), {_CONV}), {_CONV}),"
    " stax.FanInConcat(-1), stax.Flatten(), stax.Dense(1))",
    "standard": "stax.serial(stax.Flatten(), stax.Dense(8, 1.3, 0.2, parameterization='standard'), stax.Relu(),"
    " stax.Dense(1, 1.3, 0.2, parameterization='standard'))",
}  # fmt: skip


_BLOCK = "stax.Conv(1, (3, 3), padding='SAME', W_std=2**0.5), stax.Relu()"
_POOL = "stax.AvgPool((2, 2), (2, 2))"
_END = "stax.Flatten(), stax.Dense(1)"


def myrtle(*blocks: int) -> str:
    """Blocks of convolutions with a pool behind each, and after the last pools down to one position."""
    layers = [part for count in blocks for part in (*[_BLOCK] * count, _POOL)]
    return f"stax.serial({', '.join((*layers, *[_POOL] * (5 - len(blocks)), _END))})"


MYRTLE = {"Myrtle-5": myrtle(2, 1, 1), "Myrtle-7": myrtle(2, 2, 2)}
_SIDE, _COMPARED = 32, 2
_IMAGES = {"equitangents": 16, "neural_tangents": _COMPARED}  # on each side of the kernel that is timed


def myrtle_rates(library: str, values: str) -> list[dict]:
    """Pairs of images per second of processor time, the best of three runs after one that compiles; by precision."""
    import jax

    jax.config.update("jax_enable_x64", True)
    stax = importlib.import_module(f"{library}.stax")
    images = np.random.default_rng(0).standard_normal((2, _IMAGES[library], _SIDE, _SIDE, 3))
    images[:, :_COMPARED] = np.random.default_rng(1).standard_normal((2, _COMPARED, _SIDE, _SIDE, 3))
    found: list[dict] = []
    kernels: dict[str, np.ndarray] = {}
    for name, network in MYRTLE.items():
        _, _, kernel_fn = eval(network, {"stax": stax})
        compiled = kernel_fn if library == "equitangents" else jax.jit(kernel_fn, static_argnums=(2,))
        for dtype in ("float32", "float64"):
            x1, x2 = images.astype(dtype)
            times = []
            for _ in range(4):
                start = time.process_time()
                kernel = compiled(x1, x2, ("nngp", "ntk"))
                of = {kind: np.asarray(getattr(kernel, kind)) for kind in ("nngp", "ntk")}
                times.append(time.process_time() - start)
            kernels |= {f"{name}/{dtype}/{kind}": k[:_COMPARED, :_COMPARED] for kind, k in of.items()}
            found.append({"name": name, "dtype": dtype, "rate": len(x1) * len(x2) / min(times[1:])})
    np.savez(values, **kernels)  # type: ignore[arg-type]
    return found


_SIZES = {"seconds": (32, 9), "seconds_many": (256, 3)}  # inputs, and runs of which the median is taken
_LONG = 0.1  # seconds for few inputs, from which many are left out


def main(library: str, values: str) -> list[dict]:
    """Median processor seconds of few and of many inputs, in float64, after a run that compiles, or what it raises."""
    import jax

    jax.config.update("jax_enable_x64", True)
    stax = importlib.import_module(f"{library}.stax")
    x = np.random.default_rng(0).standard_normal((max(n for n, _ in _SIZES.values()), 8, 3))
    found: list[dict] = []
    kernels: dict[str, np.ndarray] = {}
    for name, network in CASES.items():
        row: dict = {"name": name}
        try:
            _, _, kernel_fn = eval(network, {"stax": stax, "jax": jax})
            compiled = kernel_fn if library == "equitangents" else jax.jit(kernel_fn, static_argnums=(1, 2))
            for size, (count, runs) in _SIZES.items():
                if row.get("seconds", 0) > _LONG:
                    break
                times = []
                for _ in range(1 + runs):
                    start = time.process_time()
                    kernel = compiled(x[:count], None, ("nngp", "ntk"))
                    of = {kind: np.asarray(getattr(kernel, kind)) for kind in ("nngp", "ntk")}
                    times.append(time.process_time() - start)
                row[size] = float(np.median(times[1:]))
                if size == "seconds":
                    kernels |= {f"{name}/{kind}": k for kind, k in of.items()}
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"
        found.append(row)
    np.savez(values, **kernels)  # type: ignore[arg-type]
    return found


SHORT = (
    "Relu()", "Sin(1.0, 0.7)", "Rbf(0.4)", "Exp(1.0, 0.5)", "Gaussian()", "Monomial(3)", "Polynomial([0.1, 1.0, 0.2])",
    "LayerNorm(), stax.Hermite(3)", "Hermite(3)", "Identity()", "Dropout(0.7, mode='test')", "standard",
)  # fmt: skip
_CALLS = 300


def short_calls(library: str, compiled: bool) -> dict[str, list[float]]:
    """Seconds of processor time of each of many calls on few inputs, least and median, after some that compile."""
    import jax

    jax.config.update("jax_enable_x64", True)
    stax = importlib.import_module(f"{library}.stax")
    x = np.random.default_rng(0).standard_normal((_SIZES["seconds"][0], 8, 3))
    found = {}
    for name in SHORT:
        _, _, kernel_fn = eval(CASES[name], {"stax": stax, "jax": jax})
        ours = library == "equitangents" and not compiled
        call = kernel_fn if ours else jax.jit(kernel_fn, static_argnums=(1, 2))
        times = []
        for _ in range(10 + _CALLS):
            start = time.process_time()
            kernel = call(x, None, ("nngp", "ntk"))
            np.asarray(kernel.nngp), np.asarray(kernel.ntk)
            times.append(time.process_time() - start)
        found[name] = [min(times[10:]), float(np.median(times[10:]))]
    return found


if __name__ == "__main__":
    mode = sys.argv[3] if sys.argv[3:] else ""
    if mode in ("calls", "compiled"):
        print(json.dumps(short_calls(sys.argv[1], mode == "compiled")))
    else:
        print(json.dumps((myrtle_rates if mode == "myrtle" else main)(sys.argv[1], sys.argv[2])))
