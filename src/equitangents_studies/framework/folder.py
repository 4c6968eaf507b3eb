"""A study's folder: its configuration, its complete stages, its tables, and the sessions in which it was run.

Files appear only when complete. A killed session stays "running" with the time that was last written: stages write it
when they finish and, while they report progress, every few seconds.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import logging
import math
import os
import platform
import shutil
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.extending import (
    LEFTOVER,
    Archive,
    atomic_file,
    file_bytes,
    locked,
    machine_memory,
    process_memory,
    quoted,
    read_json,
    write_archive,
)
from equitangents_studies.framework.progress import StudyProgress, Task

Arrays = dict[str, np.ndarray]
Ending = Literal["running", "interrupted", "failed", "finished"]
Key = TypeVar("Key", bound=Hashable)
Columns = Mapping[str, Sequence[Any] | np.ndarray]

_OURS = ("config.json", "claims.json", "report.json", "report.html", "results", "figures", "stages", "checkpoints")
_EVERY = 10.0  # seconds between notes of the run time
_LOCK = ".lock"
_PROCESSORS = Path("/proc/cpuinfo")
logger = logging.getLogger("equitangents")


class NamedStage(NamedTuple):
    """A stage: the arrays of `compute(task)`, stored under `name`; `title` is shown to readers."""

    name: str
    title: str
    compute: Callable[[Task], Arrays]


@contextlib.contextmanager
def only_run(path: Path) -> Iterator[None]:
    """Lock the folder `path`, created if missing; the operating system releases the lock when the process ends.

    Raises InvalidArgumentError where another run holds the folder, or nothing can be written.
    """
    made = not path.exists()
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(path / _LOCK, "another run is writing here"))
        except StoreError:
            remedy = "wait until it is done, or choose another"
            raise InvalidArgumentError("out", str(path), "a folder that no run is writing to", remedy) from None
        except OSError as error:
            raise InvalidArgumentError("out", str(path), "a folder that can be written", str(error.strerror)) from None
        try:
            yield
        finally:
            stack.close()
            if made:
                with contextlib.suppress(OSError):  # a folder that holds something stays
                    path.rmdir()


class RunFolder:
    """Folder of one resumable run of a study.

    Long computations are stages: `stage(name, title, compute)` returns the arrays of `compute` and stores them with the
    run's fingerprint; a resumed run reads them instead. The caller holds the folder's lock (`only_run`).

    Raises InvalidArgumentError if the folder holds other files, a finished run, or a run of another study or with other
    settings (`force` replaces it), or if there is no run to `resume`.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        *,
        resume: bool = False,
        force: bool = False,
        data_dir: Path | None = None,
        progress: StudyProgress | None = None,
    ) -> None:
        self.examine(path, config, resume=resume, force=force)
        self.path = path
        self.data_dir = data_dir
        self._progress = progress if progress is not None else StudyProgress(shown=False)
        self._config = dict(config)
        self.fingerprint = _fingerprint(_identity(config))
        self._sessions = Sessions(_config(self.path) if resume else None)
        try:
            ours = () if resume else reversed(_OURS)  # nothing else; last the configuration, which marks a run
            for name in ours:
                _remove(path / name)
            self.path.mkdir(parents=True, exist_ok=True)
            for place in (path, path / "results", path / "stages"):
                for item in place.glob(".*"):
                    if item.is_file() and LEFTOVER.fullmatch(item.name):
                        item.unlink()
            self.keep_time()
        except OSError as error:
            raise InvalidArgumentError("out", str(path), "a folder that can be written", str(error.strerror)) from None

    @staticmethod
    def examine(path: Path, config: Mapping[str, Any], *, resume: bool = False, force: bool = False) -> None:
        """Raise what the constructor would raise; touch nothing."""
        place = str(path)
        left = lambda name: name == _LOCK or LEFTOVER.fullmatch(name)  # by a run killed before its first file
        if not path.exists() or (path.is_dir() and all(left(p.name) for p in path.iterdir())):
            if resume:
                hint = "leave out --resume to start one"
                raise InvalidArgumentError("out", place, "a folder with a run to resume", hint)
            return
        held, there = _config(path), (path / "config.json").exists()
        if not there:
            hint = "there is nothing to resume" if resume else "choose another folder with --out"
            raise InvalidArgumentError("out", place, "a run of a study", hint)
        if held is None and not force:
            hint = "replace it with --force, or choose another folder with --out"
            raise InvalidArgumentError("out", str(path), "a run with a readable config.json", hint)
        if held is None or force:
            return
        differing = _differences(held, config)
        if resume and differing:
            raise InvalidArgumentError("out", str(path), "a run with the same settings to resume", differing)
        then, now = (found.get("versions", {}).get("equitangents") for found in (held, config))
        if resume and None not in (then, now) and then != now:
            remedy = f"it was begun by {then}: use that version, or leave out --resume"
            raise InvalidArgumentError("out", str(path), f"a run by equitangents {now} to resume", remedy)
        if not resume and (differing or (path / "report.html").exists()):
            found, hint = "another run: " + differing, "choose another folder with --out, or replace it with --force"
            raise InvalidArgumentError(place, found if differing else "a finished run", remedy=hint, verb="holds")

    @property
    def seconds(self) -> float:
        """Run time so far in seconds, over all sessions."""
        return self._sessions.seconds

    def finish(self) -> None:
        """Mark the run as finished."""
        self.keep_time("finished")

    def stage(self, name: str, title: str, compute: Callable[[Task], Arrays]) -> Arrays:
        """The arrays of `compute(task)`, from disk if an earlier run with the same settings has computed them."""
        file = self.path / "stages" / f"{_as_file(name)}.npz"
        with self._progress.task(title, self._now_and_then) as task:
            arrays = read_stage(file, self.fingerprint)
            if arrays is None:
                arrays = compute(task)
                write_stage(file, arrays, self.fingerprint)
                self.keep_time()
                shutil.rmtree(self.checkpoints(name), ignore_errors=True)
        return arrays

    def stages(self, work: Mapping[Key, NamedStage]) -> dict[Key, Arrays]:
        """Arrays of independent stages, by key."""
        return {key: self.stage(*one) for key, one in work.items()}

    def checkpoints(self, stage: str) -> Path:
        """Folder for a stage's checkpoints; deleted when the stage is done."""
        return self.path / "checkpoints" / _as_file(stage)

    @property
    def figures(self) -> Path:
        """The folder of figures."""
        return self.path / "figures"

    def write_table(self, name: str, columns: Columns) -> None:
        """Write `results/<name>.csv`, one row per measurement.

        Raises InvalidArgumentError for columns of unequal length.
        """
        lengths = {key: len(values) for key, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidArgumentError("columns", lengths, "columns of equal length", name)
        path = self.path / "results" / f"{name}.csv"
        with atomic_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(map(quoted, columns))
            writer.writerows(zip(*(map(_plain, values) for values in columns.values()), strict=True))

    def _now_and_then(self) -> None:
        """`keep_time` at most every few seconds, so that a kill loses little of the run time."""
        if time.monotonic() - self._kept > _EVERY:
            self.keep_time()

    def keep_time(self, ended: Ending = "running") -> None:
        """Write the run time so far, and how this session ended."""
        self._kept = time.monotonic()
        kept = {**self._config, "fingerprint": self.fingerprint, **self._sessions.to_dict(ended)}
        write_json(self.path / "config.json", kept)


def write_stage(path: Path, arrays: Arrays, fingerprint: str) -> None:
    """Write `arrays`; the file appears when it is complete."""
    about = {"fingerprint": fingerprint, "arrays": list(arrays)}
    with atomic_file(path) as partial:
        write_archive(partial, about, [np.asarray(array) for array in arrays.values()])


def read_stage(path: Path, fingerprint: str) -> Arrays | None:
    """Read the arrays of a stage; None if the file is missing, damaged, or has another fingerprint.

    Raises OSError if the file cannot be read: no permission, or a failing disk.
    """
    try:
        content = file_bytes(path, process_memory())
    except FileNotFoundError:
        return None
    try:
        archive = Archive(io.BytesIO(content))
        if archive["fingerprint"] != fingerprint:
            return None
        return {str(name): archive.array(number) for number, name in enumerate(archive["arrays"])}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        logger.warning("study: %s is damaged (%s), and the stage is computed again", path, error)
        return None


def _config(path: Path) -> dict[str, Any] | None:
    """The configuration of the run in a folder; None if it is missing or damaged."""
    try:
        found: dict[str, Any] = read_json(file_bytes(path / "config.json"))
        return found if found["fingerprint"] == _fingerprint(_identity(found)) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _identity(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: config[key] for key in ("study", "settings")}


def _differences(previous: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Differences between configurations, as text; empty if they describe the same run."""
    flat = lambda of: {"study": of["study"], **json.loads(json.dumps(of["settings"]))}
    then, now = flat(previous), flat(config)
    keys = ["study"] if then["study"] != now["study"] else sorted(now.keys() | then.keys())
    return ", ".join(f"{k} was {then.get(k)!r} and is now {now.get(k)!r}" for k in keys if now.get(k) != then.get(k))


def _remove(item: Path) -> None:
    if item.is_dir():
        shutil.rmtree(item)
    else:
        item.unlink(missing_ok=True)


def _as_file(name: str) -> str:
    """File name of a stage: O(3)^d becomes O_3__d."""
    return "".join(c if c.isalnum() or c == "-" else "_" for c in name)


def write_json(path: Path, content: object) -> None:
    """Write `content` as indented JSON; the file appears only when it is complete."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _fingerprint(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> object:
    """A value for a CSV table: floats in their shortest exact form, no NumPy types, NaN as empty text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return ""
    return repr(value) if isinstance(value, float) else quoted(value)


class Sessions:
    """Earlier sessions, from `config.json`, and the current one, which starts now."""

    def __init__(self, previous: Mapping[str, Any] | None) -> None:
        self._before = list((previous or {}).get("sessions", []))
        self._began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._machine = machine()
        self._start, self._processor_start = time.monotonic(), _processor_seconds()

    @property
    def seconds(self) -> float:
        """Total time of all sessions so far, in seconds."""
        return float(sum(session["seconds"] for session in self._before)) + time.monotonic() - self._start

    def to_dict(self, ended: Ending) -> dict[str, Any]:
        """Entries of `config.json`: total time, and every session."""
        now = {
            "began": self._began,
            "seconds": round(time.monotonic() - self._start, 3),
            "processor_seconds": round(_processor_seconds() - self._processor_start, 3),
            "ended": ended,
            "machine": self._machine,
        }
        return {"seconds": round(self.seconds, 3), "sessions": [*self._before, now]}


def machine() -> dict[str, Any]:
    """The processor's model, how many of its cores this process may use, and bytes of memory; no names of hosts."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count()
    return {"processor": _processor(), "cores": cores, "memory": machine_memory()}


def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not on Linux
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _processor_seconds() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])
