"""Runs jobs (`cases.py`) by one library, in that library's interpreter: JSON from standard input to standard output.

Input: {"library": "cpu" | "reference" | "neural_tangents", "jobs": [...], "seconds": to spend on each, "values": path}.
Output: for each job its times after one run that compiles, and the process's peak memory before and after it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

W_STD, B_STD = 2**0.5, 0.1
MOST_REPEATS = 9
Run = Callable[[Any, Any], tuple[Any, ...]]


def inputs(job: dict) -> tuple[np.ndarray, np.ndarray | None]:
    """The same numbers in every interpreter."""
    shape = (job["side"], job["side"], job["channels"]) if job["side"] else (job["channels"],)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((job["n1"], *shape)).astype(job["dtype"])
    return x, None if job["symmetric"] else rng.standard_normal((job["n2"], *shape)).astype(job["dtype"])


def ours(job: dict, engine: str) -> Run:
    """A function of the inputs that returns (NNGP, NTK) as NumPy arrays."""
    import equitangents as et

    nn = et.nn
    weights: dict[str, Any] = {"W_std": W_STD, "b_std": B_STD}
    hidden = nn.Conv(1, (3, 3), **weights) if job["side"] else nn.Dense(1, **weights)
    readout = [nn.GlobalAvgPool() if job["readout"] == "pool" else nn.Flatten()] if job["side"] else []
    net = nn.Sequential(*(hidden, nn.Relu()) * job["layers"], *readout, nn.Dense(1))

    def run(x1: Any, x2: Any) -> tuple[Any, ...]:
        found = net.kernel(x1, x2, engine=engine)
        return found.nngp, found.ntk

    return run


def theirs(job: dict) -> Run:
    """The same by neural-tangents, compiled."""
    import jax
    from neural_tangents import stax

    weights = {"W_std": W_STD, "b_std": B_STD}
    hidden = stax.Conv(1, (3, 3), padding="CIRCULAR", **weights) if job["side"] else stax.Dense(1, **weights)
    readout = [stax.GlobalAvgPool() if job["readout"] == "pool" else stax.Flatten()] if job["side"] else []
    _, _, kernel = stax.serial(*(hidden, stax.Relu()) * job["layers"], *readout, stax.Dense(1))
    compiled = jax.jit(lambda x1, x2: tuple(kernel(x1, x2, ("nngp", "ntk"))))

    def run(x1: Any, x2: Any) -> tuple[Any, ...]:
        return tuple(np.asarray(v) for v in compiled(x1, x2))

    return run


def peak() -> float:
    """Megabytes of memory that this process held at most so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 10 if sys.platform.startswith("linux") else 1 << 20
    )


def main() -> None:
    """Run all jobs of one request."""
    request = json.load(sys.stdin)
    library = request["library"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if library == "neural_tangents":
        import jax

        jax.config.update("jax_enable_x64", request["jobs"][0]["dtype"] == "float64")
        jax.numpy.ones(2).block_until_ready()
    else:
        import equitangents as et

        et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1)).kernel(np.ones((2, 2)))
    results = []
    for i, job in enumerate(request["jobs"]):
        x1, x2 = inputs(job)
        run = theirs(job) if library == "neural_tangents" else ours(job, library)
        before = peak()
        values = run(x1, x2)
        times: list[float] = []
        processor_times: list[float] = []
        while len(times) < MOST_REPEATS and (len(times) < 3 or sum(times) < request["seconds"]):
            start, processor_start = time.perf_counter(), time.process_time()
            run(x1, x2)
            times.append(time.perf_counter() - start)
            processor_times.append(time.process_time() - processor_start)
        if request.get("values"):
            np.savez(f"{request['values']}-{i}.npz", nngp=values[0], ntk=values[1])
        results.append({"times": times, "processor_times": processor_times, "peak_before": before, "peak": peak()})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
