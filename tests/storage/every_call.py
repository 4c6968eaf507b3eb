"""Kills at every call that touches files: storage.every_call FOLDER KIND MOST prints how many there were.

A child process saves, and is killed before its n-th call of the system that opens, writes, names or removes something
in the folder; of a write half is done. Afterwards the old state or the new one is there, whole, what is beside it is as
it was, the same call makes the new one, and nothing is left over.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.kinds import KINDS, Kind, path_of

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "os.utime"}
_ENDLESS = 2**31


class Calls:
    """Calls that touch a folder, counted; before the last of `left` this process is killed."""

    def __init__(self, folder: Path, left: int) -> None:
        self.folder, self.left, self.count = os.path.realpath(folder), left, 0
        sys.addaudithook(self._event)
        for name in ("write", "fsync", "close"):
            setattr(os, name, self._of_descriptors(name, getattr(os, name)))

    def tick(self, half: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count == self.left:
            half()
            os.kill(os.getpid(), signal.SIGKILL)

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS and any(str(each).startswith(self.folder) for each in arguments):
            self.tick()

    def _of_descriptors(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(descriptor: int, *rest: Any) -> Any:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(self.folder):
                self.tick(lambda: call(descriptor, rest[0][: len(rest[0]) // 2]) if name == "write" else None)
            return call(descriptor, *rest)

        return counted


def child(work: Callable[[], object], folder: Path, left: int) -> int:
    """The number of calls of a process that does `work` to its end, or 0 for one that was killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking beside threads: none of them computes
        reading, writing = os.pipe()
        number = os.fork()
    if number == 0:
        try:
            calls = Calls(folder, left)
            work()
            os.write(writing, str(calls.count).encode())
        finally:
            os._exit(0)
    os.close(writing)
    count = os.read(reading, 100)
    os.close(reading)
    status = os.waitpid(number, 0)[1]
    assert os.WIFSIGNALED(status) == (not count), "a child failed"
    return int(count or 0)


def listed(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def kills(kind: Kind, folder: Path, most: int, fresh: bool, begin: Callable[[Path], object] | None = None) -> int:
    """Kill at up to `most` of the calls of one save; returns at how many. `fresh`: nothing is there before."""
    folder.mkdir()
    path = path_of(kind, folder)

    def reset() -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / f"{path.name}.old").mkdir()  # a neighbour's, with names that we once used ourselves
        (folder / f"{path.name}.old" / "thesis.tex").write_text("mine")
        (folder / f".{path.name}-note").write_text("mine")
        if not fresh:
            (begin or (lambda path: kind.write(path, 0)))(path)

    def save() -> None:
        kind.write(path, 1)

    def saving() -> None:
        (kind.work or kind.write)(path, 1)

    reset()
    total = child(saving, folder, _ENDLESS)
    clean = listed(folder)
    most = min(most, total)
    number = 0
    chosen = sorted({1 + k * (total - 1) // max(1, most - 1) for k in range(most)})
    for left in chosen:
        reset()
        died = child(saving, folder, left) == 0
        assert died or kind.work, left  # threads do not make the same calls each time
        number += died
        try:
            found = kind.read(path)
            assert found in ((1,) if (fresh and not kind.earlier) or kind.grows else (0, 1)), left
        except FileNotFoundError:
            assert fresh or kind.grows or kind.lost, left
        save()
        assert kind.read(path) == 1, left
        assert (folder / f"{path.name}.old" / "thesis.tex").read_text() == "mine"
        assert (folder / f".{path.name}-note").read_text() == "mine"
        left_over = listed(folder) ^ clean
        assert all((folder / name).is_dir() and not any((folder / name).iterdir()) for name in left_over), left_over
    return number


if __name__ == "__main__":
    asked = KINDS[sys.argv[2]]
    done = kills(asked, Path(sys.argv[1]) / "fresh", int(sys.argv[3]) // 2, True)
    print(done + kills(asked, Path(sys.argv[1]) / "replaced", int(sys.argv[3]) - done, asked.grows))
