"""Environments in which others run, and measurements there: each library in a process and interpreter of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cases import Job

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "benchmarks"
_CONSTRAINTS = Path(__file__).with_name("constraints-peer.txt")
_WANTED = ("neural-tangents", "jax", "jaxlib", "numpy", "scipy", "tf2jax", "frozendict", "tensorflow")


@dataclass(frozen=True)
class Measured:
    """Medians of seconds and of seconds of processors; peak megabytes above what was held before; the kernels."""

    seconds: float
    processor_seconds: float
    megabytes: float
    nngp: np.ndarray
    ntk: np.ndarray


def peer_python() -> str | None:
    """The interpreter with neural-tangents, in build/peer; made if it is not there, None if that fails."""
    return environment("peer", _CONSTRAINTS, _WANTED)


def environment(name: str, constraints: Path, wanted: Sequence[str], alone: Sequence[str] = ()) -> str | None:
    """The interpreter of build/`name`, made if it is not there; None, and a line that says why, if that fails.

    It has `wanted` with all that they ask for, and the packages `alone` without, at the versions of `constraints`.
    """
    place = ROOT / "build" / name
    python, marker, versions = place / "bin" / "python", place / ".installed", constraints.read_text()
    if marker.exists() and marker.read_text() == versions:
        return str(python)
    print(f"installing {', '.join((*alone, *wanted))} into build/{name}: some minutes, once", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pip += ["--constraint", str(constraints)]
        subprocess.run([*pip, *wanted], check=True)
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"not installed: {error}", flush=True)
        return None
    marker.write_text(versions)
    return str(python)


def measure(library: str, jobs: list[Job], python: str = sys.executable, seconds: float = 2.0) -> list[Measured]:
    """Run `jobs`, all of one precision, by `library` in a fresh process of `python`."""
    with tempfile.TemporaryDirectory() as folder:
        values = str(Path(folder) / "values")
        request = {"library": library, "jobs": [j.as_dict() for j in jobs], "seconds": seconds, "values": values}
        worker = str(Path(__file__).with_name("worker.py"))
        done = subprocess.run([python, worker], input=json.dumps(request), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{library} failed: {done.stderr[-2000:]}")
        found = json.loads(done.stdout[done.stdout.index("[{") :])
        return [_measured(result, np.load(f"{values}-{i}.npz")) for i, result in enumerate(found)]


def _measured(result: dict, values: dict) -> Measured:
    return Measured(
        statistics.median(result["times"]),
        statistics.median(result["processor_times"]),
        result["peak"] - result["peak_before"],
        values["nngp"],
        values["ntk"],
    )
