"""Kernels of every layer of `stax` by one library, in its interpreter: JSON to standard output, values to a file.

`python stax_worker.py equitangents VALUES.npz` or `python stax_worker.py neural_tangents VALUES.npz`; with `myrtle`
behind it the networks of *Neural kernels without tangents* on images of 32×32×3, in both precisions.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable

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


KINDS = ("nngp", "ntk")
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
                kernel = compiled(x1, x2, KINDS)
                of = {kind: np.asarray(getattr(kernel, kind)) for kind in KINDS}
                times.append(time.process_time() - start)
            kernels |= {f"{name}/{dtype}/{kind}": k[:_COMPARED, :_COMPARED] for kind, k in of.items()}
            found.append({"name": name, "dtype": dtype, "rate": len(x1) * len(x2) / min(times[1:])})
    np.savez(values, **kernels)  # type: ignore[arg-type]
    return found


_FEW, _MANY = 32, 256  # inputs
_LONG = 0.1  # seconds of a call on few inputs, from which one is timed at a time, and many are left out
_TURNS, _CALLS = 15, 20  # of few inputs: medians of so many turns of so many calls


def main(library: str, values: str) -> list[dict]:
    """Processor seconds of a call on few and on many inputs, in float64, after one that compiles, or what it raises.

    By ways to call: "called" as the library is, "compiled" by `jax.jit`; the peer's is always compiled.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    stax = importlib.import_module(f"{library}.stax")
    x = np.random.default_rng(0).standard_normal((_MANY, 8, 3))
    found: list[dict] = []
    kernels: dict[str, np.ndarray] = {}
    for name, network in CASES.items():
        row: dict = {"name": name}
        found.append(row)
        try:
            _, _, kernel_fn = eval(network, {"stax": stax, "jax": jax})
            ways = {"compiled": jax.jit(kernel_fn, static_argnums=(1, 2))}
            if library == "equitangents":
                ways = {"called": kernel_fn, **ways}
            for way, call in ways.items():
                kernel = call(x[:_FEW], None, KINDS)
                kernels |= {f"{name}/{kind}": np.asarray(getattr(kernel, kind)) for kind in KINDS}
                once = _seconds(call, x[:_FEW], 1)
                calls = 1 if once > _LONG else _CALLS
                row[f"{way}/few"] = float(np.median([_seconds(call, x[:_FEW], calls) for _ in range(_TURNS)]))
            way, call = next(iter(ways.items()))
            if once < _LONG:
                call(x, None, KINDS)
                row[f"{way}/many"] = float(np.median([_seconds(call, x, 1) for _ in range(3)]))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"
    np.savez(values, **kernels)  # type: ignore[arg-type]
    return found


def _seconds(call: Callable, x: np.ndarray, calls: int) -> float:
    """Processor seconds of one of so many calls, one after another."""
    start = time.process_time()
    for _ in range(calls):
        kernel = call(x, None, KINDS)
        for kind in KINDS:
            np.asarray(getattr(kernel, kind))
    return (time.process_time() - start) / calls


if __name__ == "__main__":
    measure = myrtle_rates if sys.argv[3:] == ["myrtle"] else main
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
