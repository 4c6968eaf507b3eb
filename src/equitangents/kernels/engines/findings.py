"""What was found of an engine on this machine: tested in a child process, once for each device and version.

An engine that says so (`Engine.untried`) is compared with the reference engine before it is first used. What was found
is kept in the folder "engines" of the package's cache. A test that could not be made is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from equitangents._version import __version__
from equitangents.caches import cache_folder
from equitangents.claims import read_json
from equitangents.files import file_bytes, whole_file
from equitangents.kernels.engines.protocol import Engine

MARK = "equitangents trial: "  # the line with a child's finding begins so
_SECONDS = 300.0  # for a child that compiles a few kernels
_VERSION = 1  # of the test
_OURS = ("EQUITANGENTS_ENGINE",)  # what a child must not inherit
REPORT = "please report it, with the output of `equitangents doctor`, to the issue tracker of equitangents"


@dataclass(frozen=True)
class Finding:
    """What is wrong with an engine on this machine (None: nothing), and whether that was read from disk."""

    fault: str | None
    tested: bool = True  # False: the test itself could not be made
    kept: bool = False

    def __str__(self) -> str:
        """For people: "its kernels are those of the reference engine", or what is wrong."""
        if self.fault is None:
            return "passed: its kernels are those of the reference engine"
        return f"{'failed' if self.tested else 'could not be made'}: {self.fault}"


_known: dict[Engine, Finding] = {}
_lock = threading.Lock()


def finding(engine: Engine, *, again: bool = False) -> Finding | None:
    """What was found of `engine`; None where none is needed. With `again` a fault on record is tested anew."""
    if not engine.untried():
        return None
    with _lock:
        if engine not in _known or (again and _known[engine].fault is not None):
            path = _path(engine)
            kept = _read(path)
            if kept is None or (again and kept.fault is not None):
                kept = _in_child(engine)
                if kept.tested:
                    _write(path, kept)
            _known[engine] = kept
        return _known[engine]


def forget(engine: Engine) -> None:
    """Let the next question test `engine` anew, or read what is on disk."""
    _known.pop(engine, None)


def _path(engine: Engine) -> Path:
    parts = (_VERSION, engine.name, engine.description(), engine.content(), __version__, version("jaxlib"))
    return cache_folder() / "engines" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.json"


def _read(path: Path) -> Finding | None:
    try:
        stored = read_json(file_bytes(path))
        fault = stored["fault"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Finding(fault, kept=True) if fault is None or isinstance(fault, str) else None


def _write(path: Path, found: Finding) -> None:
    try:
        with whole_file(path) as partial:
            partial.write_text(json.dumps(asdict(found)), encoding="utf-8")
    except OSError:
        return  # then the next process tests again


def _in_child(engine: Engine) -> Finding:
    """Test in a child, which may crash or hang, and needs memory that this process may hold on the device."""
    kind = type(engine)
    environment = {key: value for key, value in os.environ.items() if key not in _OURS}
    environment |= {
        "PYTHONPATH": os.pathsep.join(place or os.getcwd() for place in sys.path),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "equitangents.kernels.engines.trial", kind.__module__, kind.__qualname__]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Finding(f"its test did not end within {_SECONDS:.0f} s, as on a machine that is busy with other work")
    except OSError as error:
        return Finding(f"no child process could be started: {error}", tested=False)
    if done.returncode < 0:
        return Finding(f"it crashed ({_signal(-done.returncode)})")
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
        unavailable = "it is not available in a child process" in last
        return Finding(last.strip() if unavailable else f"it does not compile or run: {last.strip()}", not unavailable)
    line = next((line for line in done.stdout.splitlines() if line.startswith(MARK)), None)
    if line is None:
        return Finding("its test ended without a result")
    return Finding(read_json(line.removeprefix(MARK)))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
