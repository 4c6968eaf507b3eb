"""A study's folder: its configuration, the stages already computed, its tables. Files appear only when complete."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.studies.framework.progress import Progress, Task

Arrays = dict[str, np.ndarray]
Columns = Mapping[str, Sequence[Any] | np.ndarray]

_OURS = ("config.json", "verdicts.json", "report.html", "results", "figures", "stages", "checkpoints")


class RunFolder:
    """Where one run of a study keeps everything, and what makes it resumable.

    Long computations are stages: `stage(name, compute)` returns the arrays of `compute` and keeps them on disk together
    with the run's fingerprint; a resumed run reads them instead. Raises InvalidArgumentError where the folder holds
    something else, or where a run with other settings is to be resumed.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        *,
        resume: bool = False,
        data_dir: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.path = path
        self.data_dir = data_dir
        self._progress = progress if progress is not None else Progress(shown=False)
        self._identity = {key: config[key] for key in ("study", "settings")}
        self.fingerprint = _fingerprint(self._identity)
        previous = self._previous_config()
        if resume and previous is not None:
            self._check_same(previous)
        try:
            if not resume or previous is None:
                self._clear()
            path.mkdir(parents=True, exist_ok=True)
            write_json(path / "config.json", config)
        except OSError as error:
            raise InvalidArgumentError(f"out is {path}, where nothing can be written: {error.strerror}") from None

    def stage(self, name: str, title: str, compute: Callable[[Task], Arrays]) -> Arrays:
        """The arrays of `compute(task)`, from disk if an earlier run with the same settings has computed them."""
        path = self.path / "stages" / f"{name}.npz"
        with self._progress.task(title) as task:
            arrays = self._stored(path)
            if arrays is None:
                arrays = compute(task)
                self._store(path, arrays)
                shutil.rmtree(self.checkpoints(name), ignore_errors=True)
        return arrays

    def checkpoints(self, stage: str) -> Path:
        """Where a stage may keep what it needs to go on after being killed; deleted when the stage is done."""
        return self.path / "checkpoints" / stage

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
            raise InvalidArgumentError(f"columns of table {name!r} have unequal lengths: {lengths}")
        path = self.path / "results" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(path)
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*(map(_plain, values) for values in columns.values()), strict=True))
        os.replace(partial, path)

    def _stored(self, path: Path) -> Arrays | None:
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as archive:
            if str(archive["fingerprint"]) != self.fingerprint:
                return None
            return {key: archive[key] for key in archive.files if key != "fingerprint"}

    def _store(self, path: Path, arrays: Arrays) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(path).with_suffix(".npz")
        contents: dict[str, Any] = {**arrays, "fingerprint": np.array(self.fingerprint)}
        np.savez_compressed(partial, **contents)
        os.replace(partial, path)

    def _previous_config(self) -> dict[str, Any] | None:
        if not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())):
            return None
        try:
            previous = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
            known = isinstance(previous, dict) and {"study", "settings"} <= previous.keys()
        except (OSError, ValueError):
            known = False
        if not known:
            raise InvalidArgumentError(
                f"{self.path} exists and holds no run of a study; choose another folder with --out"
            )
        return previous

    def _check_same(self, previous: Mapping[str, Any]) -> None:
        now = _flat(self._identity)
        then = _flat({key: previous[key] for key in self._identity})
        differing = [k for k in sorted(now.keys() | then.keys()) if now.get(k) != then.get(k)]
        if differing:
            changes = ", ".join(f"{k} was {then.get(k)!r} and is now {now.get(k)!r}" for k in differing)
            raise InvalidArgumentError(f"the run in {self.path} cannot be resumed with other settings: {changes}")

    def _clear(self) -> None:
        for name in _OURS:
            item = self.path / name
            if item.is_dir():
                shutil.rmtree(item)
            else:
                item.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON; the file appears only when it is complete."""
    partial = _partial(path)
    partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{os.getpid()}.partial")


def _fingerprint(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _flat(identity: Mapping[str, Any]) -> dict[str, Any]:
    plain = json.loads(json.dumps(identity))
    return {"study": plain["study"], **plain["settings"]}


def _plain(value: Any) -> Any:
    """A value as it should stand in a table: floats in their shortest exact form, no NumPy types."""
    if isinstance(value, np.generic):
        value = value.item()
    return repr(value) if isinstance(value, float) else value
