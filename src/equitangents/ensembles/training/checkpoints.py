"""Checkpoints of training runs, written by orbax: complete or not there at all.

A directory of checkpoints belongs to one run: `fit` of one ensemble, or one extension of it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.ensembles.training.fingerprint import check_same
from equitangents.ensembles.training.run import Snapshot
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

logger = logging.getLogger("equitangents")

_KEPT = 2
_FORMAT = 1


class CheckpointStore:
    """Checkpoints of one run under `directory`, numbered by epoch; the last two are kept."""

    def __init__(self, directory: Path, fingerprint: dict[str, str]) -> None:
        import orbax.checkpoint as ocp  # takes a second; only those who save pay for it

        self.directory = directory
        self._fingerprint = fingerprint
        self._manager: ocp.CheckpointManager = ocp.CheckpointManager(
            directory.absolute(),
            item_names=("arrays", "about"),
            options=ocp.CheckpointManagerOptions(
                max_to_keep=_KEPT, enable_async_checkpointing=False, cleanup_tmp_directories=True
            ),
        )

    def latest(self, *, resume: bool) -> tuple[Snapshot, dict[str, int]] | None:
        """The newest checkpoint and the plan that it was made with; None if there is none.

        Raises InvalidArgumentError if there is one and `resume` is False, or it is of another run.
        """
        import orbax.checkpoint as ocp

        epoch = self._manager.latest_step()
        if epoch is None:
            return None
        if not resume:
            raise InvalidArgumentError(
                f"checkpoint_dir {self.directory} holds checkpoints up to epoch {epoch}; "
                f"pass resume=True to fit to go on from there, or choose another directory"
            )
        about = self._manager.restore(epoch, args=ocp.args.Composite(about=ocp.args.JsonRestore())).about
        if about.get("format") != _FORMAT:
            raise InvalidArgumentError(
                f"checkpoint_dir {self.directory} is of format {about.get('format')!r}; this version reads {_FORMAT}"
            )
        check_same(self._fingerprint, about["fingerprint"], f"the checkpoint in {self.directory}")
        restored = self._manager.restore(epoch, args=ocp.args.Composite(arrays=ocp.args.PyTreeRestore()))
        logger.info("going on from epoch %d of %s", epoch, self.directory)
        return _unpack(epoch, restored.arrays, about), about["plan"]

    def write(self, snapshot: Snapshot, plan: dict[str, int]) -> None:
        """Write a checkpoint; it appears under its final name when it is complete."""
        import orbax.checkpoint as ocp

        if snapshot.epoch in self._manager.all_steps():
            return
        arrays, about = _pack(snapshot)
        about |= {"format": _FORMAT, "fingerprint": self._fingerprint, "plan": plan}
        items = ocp.args.Composite(arrays=ocp.args.PyTreeSave(arrays), about=ocp.args.JsonSave(about))
        self._manager.save(snapshot.epoch, args=items)
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Wait for what is being written, and stop the threads that write."""
        self._manager.close()


def run_directory(directory: Path, first: int, members: int) -> Path:
    """Where the checkpoints of members `first` to `first + members − 1` are kept.

    Raises InvalidArgumentError if `directory` has checkpoints of another number of members from `first` on.
    """
    own = directory / f"members-{first}-{first + members - 1}"
    for other in directory.glob(f"members-{first}-*"):
        if other != own and any(step.name.isdigit() for step in other.iterdir()):
            there = int(other.name.rsplit("-", 1)[1]) + 1 - first
            raise InvalidArgumentError(
                f"checkpoint_dir {directory} has {there} members from member {first} on, this run {members}; "
                f"take the same number (more can be added with extend), or another directory"
            )
    return own


def check_unused(directory: Path, first: int, members: int) -> None:
    """Raise InvalidArgumentError if `directory` has checkpoints of some of these members."""
    for own in directory.glob("members-*-*"):
        begin, end = map(int, own.name.split("-")[1:])
        if begin < first + members and end >= first and any(step.name.isdigit() for step in own.iterdir()):
            raise InvalidArgumentError(
                f"checkpoint_dir {directory} holds checkpoints of members {begin} to {end}; "
                f"pass resume=True to fit to go on from there, or choose another directory"
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
    found = {
        name: np.asarray(arrays[name]) if name in arrays else np.zeros(shape, dtype)
        for name, (shape, dtype) in about["shapes"].items()
    }

    def numbered(kind: str) -> list[np.ndarray]:
        return [found[f"{kind}-{i}"] for i in range(sum(name.startswith(f"{kind}-") for name in found))]

    recorded = dict(zip(about["recorded_names"], numbered("recorded"), strict=True))
    return Snapshot(
        epoch, numbered("params"), numbered("optimizer"), found["history"], list(about["recorded_epochs"]), recorded
    )
