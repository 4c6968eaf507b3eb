"""`make mutate`: which planted faults the tests see.

    python -m tools.mutate                      # all that are not known from before
    python -m tools.mutate --only audit         # those with "audit" in their package, path or description
    python -m tools.mutate --afresh --jobs 4    # nothing is taken from before
    python -m tools.mutate --list               # only check that every fault can be planted
    python -m tools.mutate --drawn 200 --seed 1 # faults drawn at random over all functions, in place of those listed

Results lie in build/mutate/results.jsonl as they come. Exits with 1 where a fault without a reason survives.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NoReturn

from tools.mutate.drawn import draw
from tools.mutate.faults import Fault, FaultError, explained, load
from tools.mutate.report import exit_code, table
from tools.mutate.runner import Result, Runner
from tools.mutate.settings import Settings
from tools.mutate.switched import Switched
from tools.mutate.tests_in_a_fork import ENDINGS, held_back, warm

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_multi_thread_eigen=false "
    "intra_op_parallelism_threads=1",  # as `make test` has them
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and print the table."""
    asked = _parser().parse_args(arguments)
    root = Path(asked.root).resolve()
    folder = root / "tools/mutate/faults" if asked.faults is None else Path(asked.faults).resolve()
    try:
        listed = load(folder, root)
        faults = listed if asked.drawn is None else explained(draw(root, asked.drawn, asked.seed), listed, root)
    except FaultError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [f for f in faults if all(word in f"{f.package}/{f.path}/{f.says}" for word in asked.only)]
    if not chosen:
        print(f"no fault matches --only {' '.join(asked.only)}", file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(fault.name for fault in chosen), f"{len(chosen)} faults, each can be planted", sep="\n")
        return 0
    for ending in ENDINGS:  # nothing is left behind, also where a shell ignores interrupts
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))
    kept = root / "build/mutate"
    kept.mkdir(parents=True, exist_ok=True)
    try:
        results = _run(asked, root, folder, kept, faults, chosen)
    except FaultError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(chosen, results))
    return exit_code(chosen, results)


def _run(
    asked: argparse.Namespace, root: Path, folder: Path, kept: Path, faults: list[Fault], chosen: list[Fault]
) -> dict[str, Result]:
    """Results of the chosen faults by name, those known from before included."""
    os.environ.update(_ONE_THREAD, JAX_COMPILATION_CACHE_DIR=str(kept / "compiled"))
    results: dict[str, Result] = {}

    def report(result: Result) -> None:
        results[result.name] = result
        if result.verdict == "seen" or not asked.named:
            with (kept / "results.jsonl").open("a") as file:
                file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
        print(f"{len(results)}/{len(chosen)}  {result.verdict:9}{result.seconds:6.0f} s  {result.name}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        runner = Runner(root, Path(scratch), asked.jobs, dict(_ONE_THREAD), report, wide=not asked.named)
        known = {} if asked.afresh else _known(kept / "results.jsonl")
        for fault in chosen:
            before = known.get(fault.name)
            if before is not None and runner.holds(before, fault):
                results[fault.name] = before
        left = [fault for fault in chosen if fault.name not in results]
        if left:
            print(f"{len(left)} faults to plant, {len(results)} known from before", flush=True)
            warm(Settings.read(folder).warm)
            if asked.drawn is not None:
                shares = [left[job :: asked.jobs] for job in range(min(asked.jobs, len(left)))]
                _in_forks(
                    [
                        partial(_switched, asked, root, Path(scratch) / str(job), runner, kept, faults, share, report)
                        for job, share in enumerate(shares)
                    ]
                )
                known = _known(kept / "results.jsonl")
                results |= {f.name: known[f.name] for f in left if f.name in known and runner.holds(known[f.name], f)}
                left = [f for f in left if f.name not in results]
            runner.prepare([f for f in faults if f.native] if any(f.native for f in left) else [])
            runner.run(left)
    return results


def _switched(
    asked: argparse.Namespace,
    root: Path,
    scratch: Path,
    runner: Runner,
    kept: Path,
    faults: list[Fault],
    left: list[Fault],
    report: Callable[[Result], None],
) -> None:
    switched = Switched(root, scratch, faults, runner.key, report, most=asked.seconds, kept=kept)
    switched.prepare()
    apart = [fault for fault in left if switched.apart(fault)]
    print(f"{len(apart)} of them count while the package is imported, or overlap: later, one by one", flush=True)
    switched.run([fault for fault in left if fault not in apart])


def _in_forks(calls: Sequence[Callable[[], None]]) -> None:
    """Call all in children, which may import the package and end with this process; RuntimeError where one fails."""
    sys.stdout.flush()
    children: list[int] = []
    try:
        for call in calls:
            with held_back():
                pid = os.fork()
                children += [pid] if pid else []
            if not pid:
                _child(call)
        failed = any([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
    except SystemExit:
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        raise
    if failed:
        raise RuntimeError("the drawn faults were not run to the end")


def _child(call: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        call()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _known(file: Path) -> dict[str, Result]:
    """The last result of each fault."""
    lines = file.read_text().splitlines() if file.exists() else []
    found = (Result(**json.loads(line)) for line in lines if line.strip())
    return {result.name: result for result in found}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="faults that hold all these words")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="faults at a time (default 2)")
    parser.add_argument("--afresh", action="store_true", help="take no result from before")
    parser.add_argument("--named", action="store_true", help="only the tests named for a fault; survivors are not kept")
    parser.add_argument("--list", action="store_true", help="check that every fault can be planted, and list them")
    parser.add_argument("--drawn", type=int, metavar="COUNT", help="faults drawn at random, in place of those listed")
    parser.add_argument("--seed", type=int, default=0, help="which faults are drawn (default 0)")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for each drawn fault (default 120)")
    parser.add_argument("--root", default=".", help="the project (default: here)")
    parser.add_argument("--faults", default=None, help="the folder of fault files")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
