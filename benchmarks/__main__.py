"""Runs every `bench_NAME.py` of this folder, or those named on the command line, each by its `main()`.

`--full` asks those that know of it for more cases: minutes become a quarter of an hour.
"""

import importlib
import inspect
import sys
from pathlib import Path


def main(wanted: list[str]) -> None:
    """Run the benchmarks `wanted`, all if none is named."""
    full = "--full" in wanted
    wanted = [name for name in wanted if name != "--full"]
    known = [path.stem.removeprefix("bench_") for path in sorted(Path(__file__).parent.glob("bench_*.py"))]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    for name in wanted or known:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        print(f"\n== {name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
        module.main(**({"full": full} if "full" in inspect.signature(module.main).parameters else {}))


if __name__ == "__main__":
    main(sys.argv[1:])
