"""Checkpoints of training runs, each a file with checksums that is replaced atomically.

A directory of checkpoints belongs to one run: `fit` of one ensemble, or one extension of it. Its folder `3` holds the
checkpoint of epoch 3, in the format of saved models (`saved_folder`). A digest of all that a run depends on ensures
that only the same run continues from a checkpoint.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from equitangents._version import FORMAT
from equitangents.ensembles.saved_folder import MODEL, read_about, write_folder
from equitangents.ensembles.saved_objects import EncodedValue, build
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.files import locked, real
from equitangents.validation import is_whole

logger = logging.getLogger("equitangents")

_KEPT = 2
_LOCK = ".training"
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)  # of what this user may not write


@dataclass
class Snapshot:
    """Everything a run needs to continue: parameters and states of all chunks, measurements so far, and the plan."""

    params: list[np.ndarray]
    optimizer_state: list[np.ndarray]
    history: np.ndarray
    recorded_epochs: list[int]
    recorded: dict[str, np.ndarray]
    plan: dict[str, int]

    @property
    def epoch(self) -> int:
        """Number of trained epochs."""
        return len(self.history)

    @property
    def is_sound(self) -> bool:
        """Whether all entries have the right types; invalid ones from a file may raise TypeError and the like."""
        arrays = [self.history, *self.params, *self.optimizer_state, *self.recorded.values()]
        numbers = [*self.recorded_epochs, *self.plan.values()]
        typed = all(isinstance(each, np.ndarray) for each in arrays) and all(map(is_whole, numbers))
        return typed and self.history.ndim == 2 and self.plan.keys() == {"chunk", "rows"}


class CheckpointStore:
    """Checkpoints of one run under `directory`, numbered by epoch; the last two are kept.

    For one process at a time: StoreError for a second one, and if the directory is not writable. Complete checkpoints
    in a read-only directory can still be read; only `check_writable` raises.
    """

    def __init__(self, directory: Path, fingerprint: dict[str, str]) -> None:
        self.directory = real(directory)  # what a link points to
        self._fingerprint = fingerprint
        self._held = ExitStack()
        self._forbidden: StoreError | None = None
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            busy = f"another process is training into {self.directory}; wait for it"
            self._held.enter_context(locked(self.directory / _LOCK, busy))
        except OSError as error:
            self._forbidden = StoreError(
                f"checkpoints cannot be written to {self.directory}: {error.strerror}; those that are complete there "
                "are kept, and fit(..., resume=True) goes on from them"
            )
            if error.errno not in _FORBIDDEN or not self.directory.is_dir():
                raise self._forbidden from None
            # nobody else trains there, and only reading is left

    def check_writable(self) -> None:
        """Raise StoreError if no checkpoint can be written."""
        if self._forbidden is not None:
            raise self._forbidden

    def latest(self) -> Snapshot | None:
        """The newest intact checkpoint; None if there is none.

        Damaged newer ones are logged, and removed once an older one is known to belong to this run. Raises
        InvalidArgumentError if it belongs to another run; StoreError if all are damaged.
        """
        epochs = self._epochs()
        for number, epoch in enumerate(epochs):
            try:
                found = self._read(epoch)
            except StoreError as error:
                logger.warning("%s", error)
                continue
            if self._forbidden is None:
                self._remove(epochs[:number])
            logger.info("going on from epoch %d of %s", epoch, self.directory)
            return found
        if epochs:
            raise StoreError(
                "checkpoint_dir",
                str(self.directory),
                "an undamaged checkpoint",
                "remove that folder to train from the beginning, or choose another checkpoint_dir",
            )
        return None

    def write(self, snapshot: Snapshot) -> None:
        """Write a checkpoint atomically; StoreError on failure."""
        held = EncodedValue(vars(snapshot))
        about = {"format": FORMAT, "fingerprint": self._fingerprint, "snapshot": held.tree}
        try:
            write_folder(self.directory / str(snapshot.epoch), about, held.arrays)
        except StoreError as error:
            raise StoreError(f"{error}; fit(..., resume=True) goes on from the last checkpoint") from error
        self._remove(self._epochs()[_KEPT:])

    def close(self) -> None:
        """Release the folder for other processes."""
        self._held.close()

    def _epochs(self) -> list[int]:
        """Epochs of complete checkpoints, the newest first."""
        folders = (path for path in self.directory.iterdir() if path.name.isdigit())
        return sorted((int(path.name) for path in folders if (path / MODEL).is_file()), reverse=True)

    def _remove(self, epochs: list[int]) -> None:
        for epoch in epochs:
            shutil.rmtree(self.directory / str(epoch), ignore_errors=True)

    def _read(self, epoch: int) -> Snapshot:
        name = f"the checkpoint of epoch {epoch} in {self.directory}"
        try:
            about = read_about(self.directory / str(epoch))
            fingerprint, held = dict(about["fingerprint"]), build(about["snapshot"], about.array)
            found = Snapshot(**{each.name: held[each.name] for each in fields(Snapshot)})
            if about["format"] != FORMAT or not found.is_sound:
                raise ValueError("it is not what this version saves")
        except (StoreError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{name} is damaged: {error}") from None
        check_same(self._fingerprint, fingerprint, name)
        return found


def _runs(directory: Path) -> Iterator[tuple[int, int]]:
    """(first, last) of the members of every run in the directory that has checkpoints."""
    for run in directory.glob("members-*-*"):
        if any(step.name.isdigit() for step in run.iterdir()):
            first, last = run.name.split("-")[1:]
            yield int(first), int(last)


def run_directory(directory: Path, first: int, members: int) -> Path:
    """The folder for checkpoints of members `first` to `first + members − 1`.

    Raises InvalidArgumentError if `directory` has checkpoints of a different number of members from `first` on: a run
    has one folder, or one per chunk.
    """
    others = [end + 1 - begin for begin, end in _runs(directory) if begin == first and end != first + members - 1]
    if others:
        expected = f"chunks of {members} members, and one from member {first} on has {others[0]}"
        remedy = "take the same members (extend adds more) and members_per_chunk, or another directory"
        raise InvalidArgumentError("checkpoint_dir", str(directory), expected, remedy)
    return directory / f"members-{first}-{first + members - 1}"


def check_unused(directory: Path, first: int, members: int) -> None:
    """Raise InvalidArgumentError if `directory` has checkpoints of some of these members."""
    if any(begin < first + members and end >= first for begin, end in _runs(directory)):
        raise InvalidArgumentError(
            "checkpoint_dir",
            str(directory),
            "a directory without checkpoints of these members",
            "pass resume=True to fit to go on from there, or choose another directory",
        )


def check_same(fingerprint: dict[str, str], other: dict[str, str], what: str) -> None:
    """Raise InvalidArgumentError, naming the difference, unless the two fingerprints are equal."""
    differing = [name for name in fingerprint if fingerprint[name] != other.get(name)]
    if differing:
        changes = "; ".join(f"{name}: {other.get(name, 'absent')} there, {fingerprint[name]} now" for name in differing)
        raise InvalidArgumentError(f"{what} is of another run, differing in {changes}")
