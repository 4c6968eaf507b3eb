"""Runs the numerical tests as other machines would compute: other BLAS kernels, instruction sets, numbers of threads.

    python scripts/machines.py                         # every variant, one after the other
    python scripts/machines.py zen-sse2 -- -k solvers  # one of them; what follows -- goes to pytest
    python scripts/machines.py --short --of COMMIT     # the one that a commit's hash chooses, on fewer tests

NumPy and SciPy choose OpenBLAS's kernels by OPENBLAS_CORETYPE, XLA its instructions by --xla_cpu_max_isa, the engine by
EQUITANGENTS_INSTRUCTIONS. A variant that needs more than this processor has is left out, with a line that says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# fmt: off
FOLDERS = (
    "actions", "groups", "inference", "kernels", "laws", "metrics", "solvers", "sphere", "statistics", "steerable",
    "systems",
)
SHORT = (
    "groups", "inference", "laws/test_grid_kernels.py", "solvers", "statistics", "systems/test_curves.py",
)
# fmt: on
NEEDS = {
    "sse2": (),
    "avx2": ("avx2", "fma", "bmi2"),
    "avx512": ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"),
}


@dataclass(frozen=True)
class Variant:
    """OpenBLAS's kernels, XLA's and the engine's instructions, and how many threads each of them has."""

    blas: str
    xla: str
    engine: str
    threads: int

    def environment(self) -> dict[str, str]:
        """What chooses them; XLA reads its flags up to the first word that begins without a dash."""
        flags = ["--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false"]
        flags.append(f"--xla_cpu_max_isa={self.xla}")
        if self.threads == 1:
            flags.append("--xla_cpu_multi_thread_eigen=false")
        return {
            "OPENBLAS_CORETYPE": self.blas,
            "OPENBLAS_NUM_THREADS": str(self.threads),
            "OMP_NUM_THREADS": str(self.threads),
            "EQUITANGENTS_INSTRUCTIONS": self.engine,
            "XLA_FLAGS": " ".join([*flags, f"intra_op_parallelism_threads={self.threads}"]),
        }

    def missing(self, flags: set[str]) -> list[str]:
        """What the processor lacks for it."""
        blas = {"SkylakeX": "avx512", "Nehalem": "sse2"}.get(self.blas, "avx2")
        return sorted({*NEEDS[self.engine], *NEEDS[blas]} - flags)


VARIANTS = {
    "haswell-avx2": Variant("Haswell", "AVX2", "avx2", 1),
    "zen-sse2": Variant("Zen", "SSE4_2", "sse2", 1),
    "skylakex-16-threads": Variant("SkylakeX", "AVX512", "avx512", 16),
    "nehalem-sse2": Variant("Nehalem", "SSE4_2", "sse2", 1),
    "haswell-sse2-16-threads": Variant("Haswell", "SSE4_2", "sse2", 16),
}


def chosen_by(commit: str, names: list[str]) -> str:
    """One of the names, by a commit's hash."""
    return names[int(commit[:12], 16) % len(names)]


def processor_flags() -> set[str]:
    """What the processor has, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())


def available() -> list[str]:
    """The variants that this machine can imitate; those that it cannot are named on standard error."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    flags, found = processor_flags(), []
    for name, variant in VARIANTS.items():
        if lacking := variant.missing(flags):
            print(f"left out: {name}, for which this processor lacks {', '.join(lacking)}", file=sys.stderr)
        else:
            found.append(name)
    return found


def run(name: str, folders: tuple[str, ...], rest: list[str]) -> bool:
    """Whether all tests pass as this variant."""
    start = time.monotonic()
    tests = [f"tests/{folder}" for folder in folders]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *rest, *tests]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | VARIANTS[name].environment(), check=False)
    print(f"{name}: {'passed' if done.returncode == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
    return done.returncode == 0


def main() -> None:
    """Exit with 1 where a variant fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(VARIANTS)}; none: all of them")
    parser.add_argument("--short", action="store_true", help="fewer tests")
    parser.add_argument("--of", metavar="COMMIT", help="the one variant that this hash chooses")
    given = sys.argv[1:]
    own, rest = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    asked = parser.parse_args(own)
    if unknown := sorted(set(asked.names) - set(VARIANTS)):
        parser.error(f"there is no variant {unknown[0]!r}; expected some of {', '.join(VARIANTS)}")
    names = [name for name in available() if not asked.names or name in asked.names]
    if asked.of and names:
        # Sixteen threads on two processors would wait for each other longer than they compute.
        few = [name for name in names if VARIANTS[name].threads <= 4 * (os.cpu_count() or 1)]
        names = [chosen_by(asked.of, few or names)]
    if not names:
        print("this machine can imitate none of them", file=sys.stderr)
    failed = [name for name in names if not run(name, SHORT if asked.short else FOLDERS, rest)]
    sys.exit(1 if failed or (asked.names and not names) else 0)


if __name__ == "__main__":
    main()
