"""Predictions from arrays on disk to a file, some rows at a time; what is predicted stays, whatever happens."""

from __future__ import annotations

import errno
import logging
from contextlib import AbstractContextManager, ExitStack, suppress
from time import monotonic, sleep
from typing import cast

import numpy as np

from equitangents._types import AnyModel, ArrayLike, FileName, Network, Numbers
from equitangents._version import __version__
from equitangents.ensembles.streaming.formats import (
    assemble,
    check_suffix,
    files_of,
    is_under_way,
    is_whole,
    labelled,
    remove,
    remove_own,
)
from equitangents.ensembles.streaming.parts import OtherPredictionsError, Parts, read_record
from equitangents.ensembles.streaming.predictors import Predictor, predictor
from equitangents.errors import MemoryLimitError, NotFiniteError, ShapeError, StoreError
from equitangents.file_limits import part
from equitangents.files import real
from equitangents.kernels.store.key import VERSION
from equitangents.scale.executors import part_of
from equitangents.scale.identity import row_digests
from equitangents.scale.opening import opened
from equitangents.scale.progress import Progress, ProgressCallback, told_by
from equitangents.tiles.lease import alone, is_held
from equitangents.tiles.place import ObjectPath, Place, place
from equitangents.tiles.store import DamagedTileError, check_room, store_errors
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents")

_ENTRIES = 2**25  # kernel entries of a chunk, about: 256 MB in float64
_INPUT_BYTES = 2**27  # of the inputs of a chunk
_ROWS = 64, 16384  # of a chunk, at least and at most
_WORK = 2**34  # `Predictor.work` of a chunk: some ten seconds of two cores
_PATIENCE, _PAUSE = 60.0, 0.1  # seconds to wait for another process that makes the file, and between looks


def predict_to_file(
    ensemble: AnyModel,
    x: Numbers,
    path: FileName,
    *,
    time: float | None = None,
    return_std: bool = False,
    probabilities: bool = False,
    rows: int | None = None,
    shard: tuple[int, int] | None = None,
    restart: bool = False,
    force: bool = False,
    net: Network = None,
    progress: bool | ProgressCallback | None = False,
) -> Place:
    """Predict all of x, (M, …), into the file `path`, in memory that does not grow with M; returns the path.

    What is predicted is kept chunk by chunk in the folder `PATH.parts`: the same call goes on after an interruption,
    kill -9 included, and the file appears whole in the end. Chunks of other models or inputs are not mixed: of two
    processes that predict by two models into one file at one time, one makes it and the other raises StoreError.

    Args:
        ensemble: a fitted `InfiniteEnsemble` or `InfiniteEnsembleClassifier`, or the folder in which one was saved; or
            a fitted ensemble of finite networks, `DeepEnsemble`, `equitangents.torch.Ensemble` or their classifiers,
            whose mean are the probabilities.
        x: the inputs; also a memory map (`numpy.load(file, mmap_mode="r")`) or a Zarr array.
        path: ends in .npy (the mean (M,) or (M, outputs), or the classes (M,); std in `NAME-std.npy`), .npz (arrays
            mean, std, label, probability) or .zarr (a Zarr group of them). Also s3://bucket/name.zarr, gs:// or az://
            (`equitangents[scale]`).
        time: the training time; None: the ensemble's. Of finite networks None.
        return_std: standard deviations, too, and of an infinite classifier probabilities.
        probabilities: of a calibrated infinite classifier, too, without the cost of standard deviations.
        rows: inputs that are predicted at once, and kept together; None: as many as take some 256 MB, or some seconds.
        shard: (i, n), the i-th of n parts, 0 ≤ i < n, for job arrays; whichever comes last makes the file.
        restart: remove what is in `PATH.parts` first.
        force: replace a file that is there; with `restart` also one that holds these very predictions.
        net: the network, of a saved model whose network could not be saved.
        progress: True shows it on stderr; a function is called as progress(chunks that are there, all chunks, seconds
            left); False: it is logged.

    Means equal those of `predict` up to rounding. Raises StoreError where a file is in the way, the parts are of other
    predictions, or the disk is full.

    >>> import tempfile, equitangents as et
    >>> network = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> data = np.random.default_rng(0).normal(size=(5, 3))
    >>> fitted = et.InfiniteEnsemble(network, ridge=1e-3).fit(data, data[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = predict_to_file(fitted, data, folder + "/mean.npy", rows=2)
    ...     bool(np.allclose(np.load(written), fitted.predict(data)))
    True
    """
    told_by(progress)
    given = place("path", path)
    check_suffix(given)
    out = given if isinstance(given, ObjectPath) else real(given)  # what a link points to
    if rows is not None:
        check_whole("rows", rows, 1)
    asked = predictor(ensemble, time, return_std, net, probabilities)
    x = _checked(x, asked)
    parts = _parts(out, x, asked, rows)
    mine = part_of(list(parts.chunks), shard)
    goes_on = f"; what is predicted is kept in {parts.folder}, and the same call goes on from it"
    kept = lambda: goes_on if parts.is_ours() else "; nothing is kept"
    with store_errors(f"{out} cannot be written", kept, with_file=True):
        if restart and parts.is_ours():
            remove(parts.folder)
        anew = restart and force
        if _is_done(out, parts, asked, force) and not anew:
            with suppress(StoreError), _finishing(out):  # removes what a process left that was killed
                pass
            logger.info("predict: %s is there already, whole, for this model and these inputs", given)
            return given
        try:
            parts.open()
            _check_disk(out, parts, mine)
            _predict(parts, mine, x, asked, progress)
            _finish(out, parts, x, asked, shard, force)
        except (FileNotFoundError, OtherPredictionsError):
            if not _made_elsewhere(out, parts, asked):
                raise
            remove_own(parts)  # what this one wrote after the other had removed them
            logger.info("predict: another process made %s", out)
    return given


def _checked(x: Numbers, asked: Predictor) -> ArrayLike:
    """x as an array whose rows can be read, of the shape that the model takes."""
    found = cast(ArrayLike, opened("x", x))
    shape, flat = tuple(found.shape[1:]), (int(np.prod(asked.sample_shape)),)
    if shape not in (asked.sample_shape, flat):
        raise ShapeError("x", shape, asked.sample_shape, "as the model was fitted to", verb="has inputs of shape")
    return found


def _parts(out: Place, x: ArrayLike, asked: Predictor, rows: int | None) -> Parts:
    """Where chunks are kept, and what they are of; the inputs are read once, and checked."""
    rows_of_all = sum(int(np.prod(shape)) for shape in asked.arrays.values()) * x.shape[0]
    _check_room(out, 8 * rows_of_all)
    dtype = asked.reads(x)
    count, each = x.shape[0], int(np.prod(asked.sample_shape)) * dtype.itemsize
    if rows is None:
        rows = max(1, min(max(_ENTRIES // asked.samples, _ROWS[0]), _INPUT_BYTES // each, _ROWS[1], count))
        rows = min(rows, max(1, _WORK // asked.work)) if asked.work else rows
    record = {
        "version": __version__,
        "numbers": VERSION,
        "fingerprint": asked.fingerprint,
        "inputs": row_digests("x", x, dtype, (count,))[0],
        "count": count,
        "rows": rows,
        "time": asked.time,
        "arrays": {name: list(shape) for name, shape in asked.arrays.items()},
    }
    return Parts(out.with_name(f"{out.name}.parts"), count, rows, asked.arrays, record)


def _predict(
    parts: Parts, mine: list[int], x: ArrayLike, asked: Predictor, told: bool | ProgressCallback | None
) -> None:
    waiting = parts.missing(mine)
    counted = Progress(len(mine) - len(waiting), len(mine), told, "predict", "chunks")
    for chunk in waiting:
        _predict_chunk(parts, chunk, x, asked)
        counted.add(1, 1)


def _predict_chunk(parts: Parts, chunk: int, x: ArrayLike, asked: Predictor) -> None:
    span = parts.span(chunk)
    rows = np.ascontiguousarray(part("x", x, span), asked.reads(x)).reshape(-1, *asked.sample_shape)
    try:
        values = asked.outputs(rows)
    except (MemoryError, MemoryLimitError):
        raise MemoryLimitError(
            "rows",
            len(rows),
            "inputs that fit in memory at once",
            "give fewer rows and restart, or use another machine",
            verb="number",
        ) from None
    wrong = [name for name, value in values.items() if not np.isfinite(value).all()]
    if wrong:
        raise NotFiniteError(
            wrong[0],
            (span.start, span.stop),
            "finite numbers",
            "it was not kept",
            verb="is NaN or infinite for inputs of",
        )
    parts.check()  # another process may have begun other predictions there meanwhile, beside which this one ends
    parts.write(chunk, values)


def _finish(
    out: Place, parts: Parts, x: ArrayLike, asked: Predictor, shard: tuple[int, int] | None, force: bool
) -> None:
    """Make the file if all chunks are there, also those of other processes."""
    parts.check()
    missing = len(parts.missing(parts.chunks))
    if missing and shard is None:
        raise FileNotFoundError(errno.ENOENT, f"{missing} chunks that were there are gone", str(parts.folder))
    if missing and shard is not None:
        logger.info("predict: part %d/%d is done; %d of %d chunks are missing", *shard, missing, len(parts.chunks))
        return
    with ExitStack() as alone_at_it:
        try:
            alone_at_it.enter_context(_finishing(out))
        except StoreError:
            if not _made_elsewhere(out, parts, asked):
                raise
            logger.info("predict: another process made %s", out)
            return
        parts.check()
        _check_name(out, parts, asked, force)  # another process may have made another file meanwhile
        for chunk in parts.chunks:
            try:
                parts.read(chunk)
            except (DamagedTileError, FileNotFoundError):
                _predict_chunk(parts, chunk, x, asked)
        assemble(out, parts, asked.classes)
    logger.info("predict: %d predictions in %s", parts.count, out)


def _made_elsewhere(out: Place, parts: Parts, asked: Predictor) -> bool:
    """Whether the file is there and the parts are no longer its: another process with the same command was faster.

    One that is still at it is waited for.
    """
    end = monotonic() + _PATIENCE
    while True:
        at_it = is_held(_lock(out))
        if read_record(parts.folder) != parts.record and _is_there(out, parts, asked):
            return True
        if not at_it or monotonic() > end:
            return False
        sleep(_PAUSE)


def _finishing(out: Place) -> AbstractContextManager[None]:
    """The lock of whoever makes the file."""
    return alone(_lock(out), f"another process is putting {out} together; wait for it")


def _lock(out: Place) -> Place:
    return out.with_name(f".{out.name}.finishing")


def _is_done(out: Place, parts: Parts, asked: Predictor, force: bool) -> bool:
    """Whether these very predictions are there; StoreError if another file is, unless it may be replaced."""
    if _is_there(out, parts, asked):
        # of a process that died before it removed them; an object is there for good
        if isinstance(out, ObjectPath) or read_record(parts.folder) == parts.record:
            remove(parts.folder)
        return True
    _check_name(out, parts, asked, force)
    return False


def _check_name(out: Place, parts: Parts, asked: Predictor, force: bool) -> None:
    """Raise StoreError where a file is in the way, unless it may be replaced."""
    ours = lambda name, file: is_whole(file, parts, name) or is_under_way(file, parts)
    there = [file for name, file in _files_of(out, asked) if file.exists() and not ours(name, file)]
    if there and not force:
        raise StoreError(
            f"{there[0]} exists; it does not hold these predictions: give another path, or force=True (--force) to "
            "replace it"
        )
    for file in there:
        if file.is_dir() and not (file / "zarr.json").is_file():
            raise StoreError("path", str(file), "a folder of Zarr, or another path")


def _is_there(out: Place, parts: Parts, asked: Predictor) -> bool:
    return all(is_whole(file, parts, name) for name, file in _files_of(out, asked))


def _files_of(out: Place, asked: Predictor) -> list[tuple[str, Place]]:
    return list(files_of(out, labelled(asked.arrays, asked.classes is not None)).items())


def _check_disk(out: Place, parts: Parts, mine: list[int]) -> None:
    """Raise StoreError where the disk has no room for what is missing, and for the file."""
    each = 8 * parts.rows * sum(int(np.prod(shape)) for shape in parts.arrays.values())
    if isinstance(out, ObjectPath):
        return
    _check_room(out, each * (len(parts.missing(mine)) + len(parts.chunks)))


def _check_room(out: Place, needed: int) -> None:
    check_room(out, needed, f"predictions in {out} take", " on the way, and the disk")
