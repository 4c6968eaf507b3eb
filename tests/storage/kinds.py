"""Every kind of file that is attacked in these tests: how it is written, and what is there afterwards."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import equitangents as et
from equitangents.ensembles import predict_to_file, saved_folder
from equitangents.ensembles.training.checkpoints import CheckpointStore, Snapshot
from equitangents.errors import EquitangentsError, StoreError
from equitangents.files import atomic_file
from equitangents.foreign_files import UNREADABLE
from equitangents.scale import GramStore
from equitangents.solvers import OutOfCore
from equitangents_studies.framework import folder

NET = et.nn.Sequential(et.nn.Dense(1, W_std=1.5, b_std=0.1), et.nn.Relu(), et.nn.Dense(1))
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2)), RNG.normal(size=(7, 3))


@dataclass(frozen=True)
class Kind:
    """`write(path, which)` makes state 0 or 1 of it at `path`; `read(path)` says which one is there.

    `read` raises FileNotFoundError where there is none. Of a kind that only `grows`, there is one state, 1: what is
    not there yet is computed by the same call. `lost` kinds hold what can be computed again, and do not complain.
    """

    name: str
    write: Callable[[Path, int], object]
    read: Callable[[Path], int]
    grows: bool = False
    lost: bool = False
    work: Callable[[Path, int], object] | None = None  # what writes, where `write` does it in another process
    earlier: bool = False  # state 0 is on the way to state 1
    flips: str = "refused"  # what becomes of a flipped bit: a word of the table in the guide


@cache
def model(which: int) -> et.InfiniteEnsemble:
    return et.InfiniteEnsemble(NET, ridge=(1e-3, 1e-2)[which]).fit(X, Y)


@cache
def expected(which: int) -> np.ndarray:
    return model(which).predict(NEW)


def nearest(found: np.ndarray) -> int:
    """Which model predicts these numbers; AssertionError for neither."""
    for which in (0, 1):
        if found.shape == expected(which).shape and np.max(np.abs(found - expected(which))) <= 1e-9:
            return which
    raise AssertionError("numbers of neither model")


def present(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(path)
    return path


def read_model(path: Path) -> int:
    """All arrays of the saved state, and its settings, are of one model."""
    found = et.InfiniteEnsemble.load(present(path / saved_folder.MODEL).parent)
    which = 0 if found.ridge == 1e-3 else 1
    assert nearest(found.predict(NEW)) == which
    return which


ARRAYS = [np.arange(5.0), np.zeros((0, 3)), np.asfortranarray(np.ones((3, 4))), np.array(["a", "b"]), np.array(7)]


def write_arrays(path: Path, which: int) -> None:
    saved_folder.write_folder(path, {"which": which}, [a if a.dtype.kind == "U" else a + which for a in ARRAYS])


def read_arrays(path: Path) -> int:
    """What a folder holds of arrays, each of which tells which save it is of."""
    about = saved_folder.read_about(present(path / saved_folder.MODEL).parent)
    which = about["which"]
    for number, array in enumerate(ARRAYS):
        try:
            found = about.array(number)
        except (ValueError, IndexError) as error:
            raise StoreError(str(error)) from None
        wanted = array if array.dtype.kind == "U" else array + which
        assert (found.dtype, found.shape, found.flags.f_contiguous) == (
            wanted.dtype, wanted.shape, wanted.flags.f_contiguous,
        )  # fmt: skip
        assert np.array_equal(found, wanted), "arrays of another save"
    return int(which)


def predictions(suffix: str) -> Kind:
    def write(path: Path, which: int) -> None:
        predict_to_file(model(which), NEW, path, rows=3, force=True)

    def read(path: Path) -> int:
        present(path)
        try:
            with path.open("rb") as file:
                found = np.load(file)["mean"] if suffix == ".npz" else np.load(file)
        except UNREADABLE as error:
            raise StoreError(" ".join(str(error).split())) from None
        return nearest(found)

    return Kind(f"predictions{suffix}", write, read, flips="refused" if suffix == ".npz" else "no checksum")


def gram(path: Path) -> GramStore:
    return GramStore(path, NET, X, tile=3)


def write_gram(path: Path, which: int) -> None:
    gram(path).compute()


def read_gram(path: Path) -> int:
    found = gram(present(path))
    if found.missing:
        raise FileNotFoundError(path)
    assert np.max(np.abs(found.ntk[:] - NET.kernel(X).ntk)) <= 1e-12
    return 1


MATRIX = np.asarray(NET.kernel(X).ntk) + 0.1 * np.eye(len(X))


def write_factor(path: Path, which: int) -> None:
    found = et.solvers.solve(MATRIX, Y, solver=OutOfCore(path=path, tile=2)).coefficients
    assert np.max(np.abs(MATRIX @ found - Y)) <= 1e-8


def read_factor(path: Path) -> int:
    present(path)
    write_factor(path, 1)  # it is read, and what is damaged is made again
    return 1


def write_stage(path: Path, which: int) -> None:
    folder.write_stage(path, {"x": MATRIX + which, "label": np.array(["a", str(which)])}, "print")


def read_stage(path: Path) -> int:
    found = folder.read_stage(present(path), "print")
    if found is None:
        raise FileNotFoundError(path)
    which = int(found["label"][1])
    assert found.keys() == {"x", "label"}
    assert np.array_equal(found["x"], MATRIX + which)
    return which


def write_page(path: Path, which: int) -> None:
    with atomic_file(path) as partial:
        partial.write_text(str(which) * 5000)


def read_page(path: Path) -> int:
    text = path.read_text()
    assert text in ("0" * 5000, "1" * 5000)
    return int(text[0])


def apart(work: Callable[[], int]) -> int:
    """What comes of `work` in a process of its own."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, b"x")
            found = work()
            os.write(writing, str(found).encode())
        except FileNotFoundError:
            os.write(writing, b"nothing")
        except EquitangentsError as error:
            os.write(writing, f"error: {error}".encode())
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    found = os.read(reading, 1000).decode()
    os.close(reading)
    if found.startswith("xerror: "):
        raise StoreError(found[8:])
    if found == "xnothing":
        raise FileNotFoundError
    return int(found[1:])


def checkpoint(which: int) -> Snapshot:
    return Snapshot([MATRIX + which], [MATRIX - which], np.ones((which + 1, 1)), [], {}, {"chunk": 1, "rows": 1})


def write_checkpoint(path: Path, which: int) -> None:
    store = CheckpointStore(path, {})
    try:
        for epoch in range(which + 1):
            store.write(checkpoint(epoch))
    finally:
        store.close()


def read_checkpoint(path: Path) -> int:
    store = CheckpointStore(present(path), {})
    try:
        found = store.latest()
    finally:
        store.close()
    if found is None:
        raise FileNotFoundError(path)
    which = found.epoch - 1
    assert np.array_equal(found.params[0], MATRIX + which)
    assert np.array_equal(found.optimizer_state[0], MATRIX - which)
    return which


CHECKPOINTS = Kind(
    "checkpoints",
    lambda path, which: apart(lambda: write_checkpoint(path, which) or 0),
    lambda path: apart(lambda: read_checkpoint(path)),
    work=write_checkpoint,
    earlier=True,
    flips="the one before",
)

KINDS = {
    kind.name: kind
    for kind in (
        Kind("saved model", lambda path, which: model(which).save(path), read_model),
        Kind("arrays of a model", write_arrays, read_arrays),
        predictions(".npy"),
        predictions(".npz"),
        Kind("Gram store", write_gram, read_gram, grows=True),
        Kind("factor on disk", write_factor, read_factor, grows=True, flips="computed again"),
        Kind("stage.npz", write_stage, read_stage, lost=True, flips="computed again"),
        Kind("page.html", write_page, read_page, flips="no checksum"),
        CHECKPOINTS,
    )
}


def path_of(kind: Kind, folder: Path) -> Path:
    """Where this kind lies in a folder of these tests."""
    return folder / ("m" + "".join(Path(kind.name).suffixes))


def outcome(work: Callable[[], object]) -> tuple[object, str]:
    """(what comes of it, "") or (None, what is said of it in one line, as the command line says it)."""
    try:
        return work(), ""
    except FileNotFoundError as error:
        return None, f"nothing is there: {error}"
    except EquitangentsError as error:
        return None, str(error)
    except OSError as error:
        return None, f"a file or folder cannot be read or written: {error.strerror}"
