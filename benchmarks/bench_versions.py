"""What calls cost beside another version of this library: ordinary ones, those with units inside, and short ones.

`BEFORE=FOLDER python -m benchmarks versions`: a checkout of the other version, whose engine is built in its `src`. Both
have a process of their own and take turns; milliseconds of processor time of one thread, medians over turns of the
least of a few calls. Without BEFORE ours alone. The last column says whether the kernels are the same to the last bit.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TURNS, CALLS = 7, 3
SHORT = 1000  # numbers of the inputs of a call up to which many are timed
WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
_SOURCE = Path(__file__).parent.parent / "src"


def cases() -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """Name -> what makes (network, x1, x2 or None)."""
    import numpy as np

    from equitangents import nn

    conv, dense = (nn.Conv(1, (3, 3), **WEIGHTS), nn.Relu()), (nn.Dense(1, **WEIGHTS), nn.Relu())
    plain, pooled = (nn.Dense(1, W_std=2**0.5), nn.Relu()), (nn.GlobalAvgPool(), nn.Dense(1))
    cubes = (nn.Conv(1, (3, 3)), nn.Monomial(3))

    def of(layers: tuple[nn.Layer, ...], n: int, *shape: int, dtype: str = "float32", alone: bool = False) -> Any:
        def made() -> tuple[Any, Any, Any]:
            x, y = (np.random.default_rng(i).standard_normal((n, *shape)).astype(dtype) for i in range(2))
            return nn.Sequential(*layers), x, None if alone else y

        return made

    end = (nn.Dense(1),)
    return {
        "dense, ReLU, 2,000 × 784, float32": of((*plain * 3, *end), 2000, 784),
        "the same with themselves": of((*plain * 3, *end), 2000, 784, alone=True),
        "dense, ReLU and biases, 1,000 × 784, float64": of((*dense * 3, *end), 1000, 784, dtype="float64"),
        "dense, ReLU and biases, 1,500 × 64, float32": of((*dense * 3, *end), 1500, 64),
        "GAP, ReLU, 24 images of 16×16×3, float32": of((*conv * 3, *pooled), 24, 16, 16, 3),
        "VEC, Erf, 192 images of 16×16×3, float32": of((conv[0], nn.Erf(), nn.Flatten(), *end), 192, 16, 16, 3),
        "a pool between layers, 16 images of 16×16×3, float32": of(
            (*conv, nn.AvgPool(2), *conv, *pooled), 16, 16, 16, 3
        ),
        "`Monomial(3)` and a pool between layers, float32": of((*cubes, nn.AvgPool(2), *cubes, *pooled), 8, 16, 16, 3),
        "`Monomial(3)`, dense, a residual sum, float64": of(
            (nn.Dense(1), nn.Residual(nn.Monomial(3), nn.Dense(1)), nn.Relu(), *end), 1000, 64, dtype="float64"
        ),
        "dense, ReLU, 32 × 24, float64": of((*dense, *end), 32, 24, dtype="float64", alone=True),
    }


def work() -> None:
    """For each name on standard input one line of JSON: milliseconds of a call, and a digest of its kernels."""
    import numpy as np

    known = cases()
    made: dict[str, tuple[Any, Any, Any]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            made[name] = known[name]()
            made[name][0].kernel(*made[name][1:])
        net, x, y = made[name]
        calls = CALLS if x.size > SHORT else 100
        times = []
        for _ in range(calls):
            start = time.process_time()
            found = net.kernel(x, y)
            times.append(time.process_time() - start)
        digest = hashlib.sha256(np.asarray(found.nngp).tobytes() + np.asarray(found.ntk).tobytes()).hexdigest()
        print(json.dumps([1e3 * min(times), digest]), flush=True)


def _worker(source: Path) -> subprocess.Popen:
    """This file as a worker on the library in `source`."""
    code = "import runpy, sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2]);"
    code += " from benchmarks.bench_versions import work; work()"
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(Path(__file__).parent.parent), str(source)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **one}
    )


def _asked(worker: subprocess.Popen, name: str) -> tuple[float, str]:
    """(milliseconds, digest) of one turn."""
    out, found = worker.stdin, worker.stdout
    if out is None or found is None:
        raise RuntimeError("a worker has pipes")
    print(name, file=out, flush=True)
    took, digest = json.loads(found.readline())
    return took, digest


def main() -> None:
    """One row a case."""
    before = os.environ.get("BEFORE")
    sources = {"since": _SOURCE} if before is None else {"before": Path(before) / "src", "since": _SOURCE}
    workers = {version: _worker(source) for version, source in sources.items()}
    print(f"| call | {', ms | '.join(workers)}, ms | ratio | same bits |\n|---|{'---:|' * (len(workers) + 2)}")
    for name in cases():
        found: dict[str, list[tuple[float, str]]] = {version: [] for version in workers}
        for _ in range(TURNS):
            for version, worker in workers.items():
                found[version].append(_asked(worker, name))
        medians = {version: statistics.median(took for took, _ in runs) for version, runs in found.items()}
        cells = [f"{took:.3g}" for took in medians.values()]
        ratio = f"{medians['since'] / medians['before']:.2f}" if before else ""
        same = len({digest for runs in found.values() for _, digest in runs}) == 1
        print(f"| {' | '.join((name, *cells, ratio, 'yes' if same else 'no'))} |", flush=True)
    for worker in workers.values():
        worker.communicate()


if __name__ == "__main__":
    main()
