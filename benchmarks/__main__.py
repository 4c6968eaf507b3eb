"""Runs every `bench_NAME.py` of this folder, or those named on the command line, each by its `main()`.

`--full` asks those that know of it for more cases, `--draws N` for so many: minutes become hours.
"""

import argparse
import importlib
import inspect
from pathlib import Path


def main() -> None:
    """Run the benchmarks that are named, or all."""
    known = [path.stem.removeprefix("bench_") for path in sorted(Path(__file__).parent.glob("bench_*.py"))]
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--draws", type=int)
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    for name in given.names or known:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        print(f"\n== {name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
        options = inspect.signature(module.main).parameters
        module.main(**{option: value for option, value in vars(given).items() if option in options})


if __name__ == "__main__":
    main()
