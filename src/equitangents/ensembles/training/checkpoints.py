"""Checkpoints of training runs, written by orbax: complete, with the checksums of all files, or not taken.

A directory of checkpoints belongs to one run: `fit` of one ensemble, or one extension of it. Beside the folder of epoch
3 lies `3.json`, with the size and CRC-32 of each of its files; a checkpoint without that was not finished.
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents._version import FORMAT
from equitangents.checksums import file_checksum
from equitangents.ensembles.training.fingerprint import check_same
from equitangents.ensembles.training.run import Snapshot
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.file_limits import read_json
from equitangents.files import FORBIDDEN, file_bytes, real, whole_file
from equitangents.locks import alone

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

logger = logging.getLogger("equitangents")

_KEPT = 2
_LOCK = ".training"


class CheckpointStore:
    """Checkpoints of one run under `directory`, numbered by epoch; the last two are kept.

    One process at a time: StoreError for a second one, and where the directory cannot be written. What is complete in a
    directory that this user may read and not write is read: `check_writable` raises there.
    """

    def __init__(self, directory: Path, fingerprint: dict[str, str]) -> None:
        import orbax.checkpoint as ocp  # takes a second; only those who save pay for it

        self.directory = real(directory)  # what a link points to
        self._fingerprint = fingerprint
        self._held = ExitStack()
        self._forbidden: OSError | None = None
        try:
            self._hold()
            writable = self._forbidden is None
            self._manager: ocp.CheckpointManager = ocp.CheckpointManager(
                directory.absolute(),
                item_names=("arrays", "about"),
                options=ocp.CheckpointManagerOptions(
                    max_to_keep=_KEPT,
                    enable_async_checkpointing=False,
                    cleanup_tmp_directories=writable,
                    create=writable,
                ),
            )
        except OSError as error:
            self._held.close()
            raise self._unwritable(error) from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # of orbax, for files that are not its own
            self._held.close()
            raise self._unreadable(error) from None

    def _hold(self) -> None:
        """Keep others out; where nothing may be written, nobody else trains, and only reading is left."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(
                alone(self.directory / _LOCK, f"another process is training into {self.directory}; wait for it")
            )
        except OSError as error:
            if error.errno not in FORBIDDEN or not self.directory.is_dir():
                raise
            self._forbidden = error

    def check_writable(self) -> None:
        """Raise StoreError where no checkpoint can be written."""
        if self._forbidden is not None:
            raise self._unwritable(self._forbidden)

    def latest(self, *, resume: bool) -> tuple[Snapshot, dict[str, int]] | None:
        """The newest checkpoint that is whole and the plan that it was made with; None if there is none.

        Newer ones that are damaged are said in the log, and removed once an older one proves to be of this run. Raises
        InvalidArgumentError if there is one and `resume` is False, or it is of another run; StoreError if all are
        damaged.
        """
        epochs = sorted(self._manager.all_steps(), reverse=True)
        if epochs and not resume:
            raise InvalidArgumentError(
                "checkpoint_dir",
                str(self.directory),
                "a directory without checkpoints",
                "pass resume=True to fit to go on from there, or choose another directory",
            )
        damaged: list[int] = []
        for epoch in epochs:
            try:
                found = self._restored(epoch)
            except _DamagedError as error:
                logger.warning("the checkpoint of epoch %d in %s is damaged: %s", epoch, self.directory, error)
                damaged.append(epoch)
                if epochs == [epoch] and isinstance(error, _UnfinishedError) and self._forbidden is None:
                    self._manager.delete(epoch)  # the first one: training begins anew
                    return None
                continue
            for later in damaged if self._forbidden is None else ():
                self._manager.delete(later)
            logger.info("going on from epoch %d of %s", epoch, self.directory)
            return found
        if damaged:
            raise StoreError(
                "checkpoint_dir",
                str(self.directory),
                "an undamaged checkpoint",
                "remove that folder to train from the beginning, or choose another checkpoint_dir",
            )
        return None

    def _restored(self, epoch: int) -> tuple[Snapshot, dict[str, int]]:
        import orbax.checkpoint as ocp

        summed = self._is_whole(epoch)
        try:
            about = self._manager.restore(epoch, args=ocp.args.Composite(about=ocp.args.JsonRestore())).about
            number = about.get("format")
            if number != FORMAT:
                raise InvalidArgumentError("checkpoint_dir", number, FORMAT, str(self.directory), verb="is of format")
            if not summed:
                raise _UnfinishedError("its checksums are not there: it was not finished")
            check_same(self._fingerprint, about["fingerprint"], f"the checkpoint in {self.directory}")
            restored = self._manager.restore(epoch, args=ocp.args.Composite(arrays=ocp.args.PyTreeRestore()))
            return _unpack(epoch, restored.arrays, about), about["plan"]
        except (InvalidArgumentError, _DamagedError, MemoryError, PermissionError):
            raise
        except Exception as error:  # of orbax and of what it reads by, for files that are not as they were
            raise _DamagedError(str(error).partition("\n")[0]) from error

    def write(self, snapshot: Snapshot, plan: dict[str, int]) -> None:
        """Write a checkpoint; it counts once its checksums are there. StoreError where that fails."""
        import orbax.checkpoint as ocp

        if snapshot.epoch in self._manager.all_steps():
            return
        arrays, about = _pack(snapshot)
        about |= {"format": FORMAT, "fingerprint": self._fingerprint, "plan": plan}
        items = ocp.args.Composite(arrays=ocp.args.PyTreeSave(arrays), about=ocp.args.JsonSave(about))
        try:
            self._manager.save(snapshot.epoch, args=items)
            self._manager.wait_until_finished()
            self._write_checksums(snapshot.epoch)
        except (OSError, ValueError) as error:  # tensorstore's errors of the file system are ValueErrors
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Wait for what is being written, stop the threads that write, and let others in."""
        self._manager.close()
        self._held.close()

    def _write_checksums(self, epoch: int) -> None:
        content = json.dumps(_checksums(self.directory / str(epoch)), indent=1).encode()
        with whole_file(self._sums(epoch)) as partial:
            partial.write_bytes(content)
        kept = {self._sums(step) for step in self._manager.all_steps()}
        for path in self.directory.glob("*.json"):
            if path.stem.isdigit() and path not in kept:  # others are not ours
                path.unlink(missing_ok=True)

    def _is_whole(self, epoch: int) -> bool:
        """Whether all files have their checksums; False where there are none to compare with, else _DamagedError."""
        try:
            wanted = read_json(file_bytes(self._sums(epoch)))
        except FileNotFoundError:
            return False
        except ValueError as error:
            raise _DamagedError(f"its checksums cannot be read: {error}") from None
        if not isinstance(wanted, dict):
            raise _DamagedError("its checksums cannot be read: they are no object")
        there = _checksums(self.directory / str(epoch))
        if there != wanted:
            names = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
            raise _DamagedError(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not as written")
        return True

    def _sums(self, epoch: int) -> Path:
        return self.directory / f"{epoch}.json"

    def _unreadable(self, error: Exception) -> StoreError:
        reason = " ".join(str(error).split())
        return StoreError(
            f"checkpoints in {self.directory} cannot be read: {reason}; remove that folder to train from the "
            "beginning, or choose another checkpoint_dir"
        )

    def _unwritable(self, error: Exception) -> StoreError:
        what = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        return StoreError(
            f"checkpoints cannot be written to {self.directory}: {what}; those that are complete there are kept, and "
            "fit(..., resume=True) goes on from them"
        )


class _DamagedError(Exception):
    """A checkpoint that is incomplete or not as it was written; says what is wrong."""


class _UnfinishedError(_DamagedError):
    """A checkpoint whose writer was killed before it wrote the checksums."""


def _checksums(folder: Path) -> dict[str, list[int]]:
    """(bytes, CRC-32) of every file in a folder, by its name from there."""
    return {
        path.relative_to(folder).as_posix(): [path.stat().st_size, file_checksum(path)]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_directory(directory: Path, first: int, members: int) -> Path:
    """Where the checkpoints of members `first` to `first + members − 1` are kept.

    Raises InvalidArgumentError if `directory` has checkpoints of another number of members from `first` on: a run is
    one part, or by an executor one for each chunk.
    """
    own = directory / f"members-{first}-{first + members - 1}"
    for other in directory.glob(f"members-{first}-*"):
        if other != own and any(step.name.isdigit() for step in other.iterdir()):
            there = int(other.name.rsplit("-", 1)[1]) + 1 - first
            raise InvalidArgumentError(
                f"checkpoint_dir {directory} is written in parts, of which one has {there} members from member {first} "
                f"on, this run {members}; take the same members (more can be added with extend) and members_per_chunk, "
                "with or without an executor as then, or another directory"
            )
    return own


def check_unused(directory: Path, first: int, members: int) -> None:
    """Raise InvalidArgumentError if `directory` has checkpoints of some of these members."""
    for own in directory.glob("members-*-*"):
        begin, end = map(int, own.name.split("-")[1:])
        if begin < first + members and end >= first and any(step.name.isdigit() for step in own.iterdir()):
            raise InvalidArgumentError(
                "checkpoint_dir",
                str(directory),
                "a directory without checkpoints of these members",
                "pass resume=True to fit to go on from there, or choose another directory",
            )


def _pack(snapshot: Snapshot) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {"history": snapshot.history}
    arrays |= {f"params-{i}": a for i, a in enumerate(snapshot.params)}
    arrays |= {f"optimizer-{i}": a for i, a in enumerate(snapshot.optimizer_state)}
    arrays |= {f"recorded-{i}": a for i, a in enumerate(snapshot.recorded.values())}
    about = {
        "recorded_epochs": snapshot.recorded_epochs,
        "recorded_names": list(snapshot.recorded),
        "shapes": {name: [list(a.shape), a.dtype.name] for name, a in arrays.items()},
    }
    return {name: a for name, a in arrays.items() if a.size}, about  # orbax writes no empty arrays


def _unpack(epoch: int, arrays: dict[str, Any], about: dict[str, Any]) -> Snapshot:
    found = {}
    for name, (shape, dtype) in about["shapes"].items():
        if name not in arrays and 0 not in shape:  # only empty ones are not written
            raise _DamagedError(f"{name} is missing")
        found[name] = np.asarray(arrays[name]) if name in arrays else np.zeros(shape, dtype)
        if list(found[name].shape) != shape:
            raise _DamagedError(f"{name} has shape {found[name].shape}, and was written with {shape}")

    def numbered(kind: str) -> list[np.ndarray]:
        return [found[f"{kind}-{i}"] for i in range(sum(name.startswith(f"{kind}-") for name in found))]

    recorded = dict(zip(about["recorded_names"], numbered("recorded"), strict=True))
    return Snapshot(
        epoch, numbered("params"), numbered("optimizer"), found["history"], list(about["recorded_epochs"]), recorded
    )
