"""Predictions from arrays on disk to a file, some rows at a time; finished chunks survive any interruption.

The predictions are means, labels, standard deviations and probabilities, as named arrays.

.npy    the mean, or the label for a classifier
.npz    the requested arrays among mean, std, label, probability; uncompressed

Chunks of rows are archives in `PATH.parts`, in a folder named by a hash of model and inputs, so that chunks of
different models or inputs never mix. The last line of a finished file holds the same hash, with a checksum.
"""

from __future__ import annotations

import csv
import logging
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import scipy.special

from equitangents._types import ArrayLike, FileName, Network, Numbers, Times
from equitangents._version import __version__
from equitangents.ensembles.archives import Archive, write_archive
from equitangents.ensembles.infinite import saving
from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier
from equitangents.ensembles.infinite.predictor import MeansAtATime
from equitangents.ensembles.infinite.regressor import InfiniteEnsemble, InfiniteEnsembleBase
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryLimitError,
    NotFiniteError,
    ShapeError,
    StoreError,
)
from equitangents.files import atomic_file, locked, real, sweep_partials
from equitangents.formatting import quoted
from equitangents.inference.dynamics import one_time
from equitangents.kernels.cost import CostedKernel
from equitangents.kernels.orbit import OrbitAverage
from equitangents.kernels.program import VERSION
from equitangents.nn import Sequential
from equitangents.progress import Progress, ProgressCallback, callback_of
from equitangents.scale.executors import part_of
from equitangents.scale.identity import checksum, rows_digest
from equitangents.scale.place import DamagedTileError, check_room, local, remove_all, store_errors
from equitangents.scale.reading import some_rows
from equitangents.scale.record import opened
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents")

_ENTRIES = 2**25  # kernel entries of a chunk, about: 256 MB in float64
_INPUT_BYTES = 2**27  # of the inputs of a chunk
_ROWS = 64, 16384  # of a chunk, at least and at most
_WORK = 2**34  # `Predictor.work` of a chunk: some ten seconds of two cores
_PATIENCE = 60.0  # seconds to wait for another process that makes the file
_ATTEMPTS = 5  # at a chunk in a folder that others remove
_GROUP = re.compile("[0-9a-f]{16}")  # the name of a folder of chunks
CLASSES: dict[str, type[InfiniteEnsembleBase]] = {
    kind.__name__: kind for kind in (InfiniteEnsemble, InfiniteEnsembleClassifier)
}


class Predictor:
    """Predicts named arrays by a fitted ensemble, or one in a folder, at one training time.

    `arrays` maps their names to the shape of a row. The fingerprint is that of the ensemble without its labels.
    `samples` are the training samples, in `dtype`, the type to which inputs are converted; None, with standardisation:
    inputs keep their type, since rounding before the shift may lose their differences. `work` of an input: positions ×
    pair offsets × layers × samples.

    Raises InvalidArgumentError for arrays that the ensemble cannot predict.
    """

    def __init__(
        self,
        ensemble: InfiniteEnsembleBase | FileName,
        time: Times | None,
        return_std: bool,
        net: Network,
        probabilities: bool,
    ) -> None:
        self.folder: Path | None = None  # of a saved ensemble, whose file somebody else may have written
        if isinstance(ensemble, InfiniteEnsembleBase):
            ensemble._check_fitted()
            self.fingerprint = saving.fingerprint(ensemble)
            self._ensemble: Any = ensemble
        elif isinstance(ensemble, str | Path):
            self.folder = local("ensemble", ensemble)
            about = saving.about_model(self.folder)
            self.fingerprint = about["fingerprint"]
            self._ensemble = saving.load(CLASSES[about["class"]], self.folder, net, about)
        else:
            raise InvalidTypeError("ensemble", ensemble, "a fitted infinite ensemble, or the folder of a saved one")
        fitted = self._ensemble
        classifies = isinstance(fitted, InfiniteEnsembleClassifier)
        self._regression = fitted.ensemble_ if classifies else fitted
        self._units, samples = fitted.standardisation_, fitted._data[0]
        self.classes = _labels(fitted.classes_.tolist()) if classifies else None
        self.sample_shape: tuple[int, ...] = tuple(fitted.sample_shape_)
        self.samples, self.dtype = len(samples), samples.dtype if self._units is None else None
        self.time = one_time(float(fitted.time) if time is None else time, "predictions are written at one time")
        calibrated = classifies and self.time == float(fitted.time)
        self._temperature = fitted.temperature_ if calibrated and probabilities else None
        if probabilities and self._temperature is None:
            raise InvalidArgumentError("probabilities", True, "a calibrated classifier", "or take return_std=True")
        grid = tuple(getattr(fitted, "positions_", ()))
        shape = (*grid, len(fitted.classes_)) if classifies else grid if fitted._squeeze else (*grid, fitted.n_outputs_)
        self.arrays: dict[str, tuple[int, ...]] = {"mean": shape} | ({"probability": shape} if probabilities else {})
        if return_std:
            self.arrays |= {"std": tuple(self._regression.positions_)} | ({"probability": shape} if classifies else {})
        at_its_time = not return_std and self.time == float(fitted.time)
        with self._sound():
            self._means: MeansAtATime | None = fitted._solved.mean_problem.mean(self.time) if at_its_time else None
            self.work = 0 if self._means is None else _work(self._means)

    def predict(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays for a block of inputs, in float64; StoreError if a saved ensemble predicts invalid values."""
        with self._sound():
            found = self._outputs(x)
            values = {name: np.asarray(found[name], np.float64) for name in self.arrays}
            if any(values[name].shape != (len(x), *shape) for name, shape in self.arrays.items()):
                raise ValueError("predictions have another shape than it says")
        return values

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Context in which failures of a saved ensemble's inconsistent parts become StoreError."""
        try:
            yield
        except EquitangentsError:
            raise
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError) as error:
            if self.folder is None:
                raise
            reason = " ".join(str(error).split())
            raise StoreError(
                "model", str(self.folder), "a model whose parts fit each other", f"{reason}; fit the model again"
            ) from error

    def _outputs(self, x: np.ndarray) -> dict[str, np.ndarray]:
        if self._means is not None:
            means = self._means(x if self._units is None else self._units(x))
            found = {"mean": means.reshape(len(x), *self.arrays["mean"])}
        elif "std" in self.arrays:
            found = dict(zip(("mean", "std"), self._regression.predict(x, self.time, return_std=True), strict=True))
        else:
            found = {"mean": self._regression.predict(x, self.time)}
        if "std" in self.arrays and self.classes is not None:
            found["probability"] = self._ensemble.predict_proba(x, self.time)
        elif self._temperature is not None:
            found["probability"] = scipy.special.softmax(found["mean"] / self._temperature, axis=-1)
        return found


def _work(means: MeansAtATime) -> int:
    """`Predictor.work` for networks on grids; 0 for others, whose kernels are matrix products."""
    inputs, kernel = means.inputs, means.kernel
    network = kernel.base if isinstance(kernel, OrbitAverage) else kernel
    if not isinstance(inputs, np.ndarray) or inputs.ndim < 3 or not isinstance(network, Sequential):
        return 0
    return cast(CostedKernel, kernel).kernel_cost(inputs.shape[1:], 1, len(inputs), inputs.dtype).element_layers


def _labels(classes: list[Any]) -> np.ndarray:
    """Labels as an array; large integers that need uint64 are kept, which NumPy would convert to floats."""
    unsigned = all(type(label) is int for label in classes) and min(classes) >= 0 and 2**63 <= max(classes) < 2**64
    return np.array(classes, np.uint64 if unsigned else None)


def predict_to_file(
    ensemble: InfiniteEnsembleBase | FileName,
    x: Numbers,
    path: FileName,
    *,
    time: float | None = None,
    return_std: bool = False,
    probabilities: bool = False,
    rows: int | None = None,
    shard: tuple[int, int] | None = None,
    force: bool = False,
    net: Network = None,
    progress: bool | ProgressCallback | None = False,
) -> Path:
    """Predict all of x, (M, …), into the file `path`, in memory that does not grow with M; returns the path.

    Predictions are kept chunk by chunk in the folder `PATH.parts`: the same call continues after any interruption
    (kill -9 included), and the file appears complete at the end. Chunks of other models or inputs are not mixed: if two
    processes predict by two models into one file at the same time, one makes it and the other raises StoreError.

    Args:
        ensemble: a fitted `InfiniteEnsemble` or `InfiniteEnsembleClassifier`, or the folder in which one was saved.
        x: the inputs; also a memory map (`numpy.load(file, mmap_mode="r")`) or a Zarr array.
        path: ends in .npy (the mean (M,) or (M, outputs), or the classes (M,)) or .npz (arrays mean, std, label,
            probability).
        time: the training time; None: the ensemble's.
        return_std: also standard deviations, and probabilities for a classifier; only for .npz.
        probabilities: also the probabilities of a calibrated classifier, without the cost of standard deviations.
        rows: inputs per chunk; None: about 256 MB, or some seconds.
        shard: (i, n), the i-th of n parts, 0 ≤ i < n, for job arrays; whichever comes last makes the file.
        force: replace an existing file with other content.
        net: the network, for a saved model whose network could not be saved.
        progress: True shows it on stderr; a function is called as progress(finished chunks, all chunks, seconds left);
            False: it is logged.

    Means equal those of `predict` up to rounding. Raises StoreError if another file exists, or the disk is full.

    >>> import tempfile, equitangents as et
    >>> network = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> data = np.random.default_rng(0).normal(size=(5, 3))
    >>> fitted = et.InfiniteEnsemble(network, ridge=1e-3).fit(data, data[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = predict_to_file(fitted, data, folder + "/mean.npy", rows=2)
    ...     bool(np.allclose(np.load(written), fitted.predict(data)))
    True
    """
    callback_of(progress)
    given = local("path", path)
    if given.suffix not in (".npy", ".npz"):
        raise InvalidArgumentError("path", str(path), "a name that ends in .npy or .npz")
    if given.suffix == ".npy" and (return_std or probabilities):
        raise InvalidArgumentError("path", str(path), "a name that ends in .npz, for several arrays")
    if rows is not None:
        check_whole("rows", rows, 1)
    by = Predictor(ensemble, time, return_std, net, probabilities)
    task = PredictionTask(real(given), x, by, rows)
    mine = part_of(list(task.chunks), shard)
    kept = lambda: (
        f"; what is predicted is kept in {task.folder}, and the same call goes on from it"
        if task.folder.is_dir()
        else "; nothing is kept"
    )
    with store_errors(f"{task.out} cannot be written", kept):
        if task.is_done():
            with suppress(StoreError, OSError), task.locked():  # what a process left that was killed
                task.remove()
                sweep_partials(task.out)
            logger.info("predict: %s is there already, whole, for this model and these inputs", given)
            return given
        task.check_name(force)
        waiting = [chunk for chunk in mine if not task.path(chunk).is_file()]
        counted = Progress(len(mine) - len(waiting), len(mine), progress, task="predict", unit="chunks")
        for chunk in waiting:
            task.predict(chunk)
            counted.add(1, 1)
        if shard is not None and not all(task.path(chunk).is_file() for chunk in task.chunks):
            logger.info("predict: part %d/%d is done, others are missing", *shard)
            return given
        with task.locked():
            if not task.is_done():
                task.check_name(force)
                task.assemble()
            task.remove()
    logger.info("predict: %d predictions in %s", task.count, task.out)
    return given


class PredictionTask:
    """Predictions of inputs x into the file `out`, by chunks of `rows`; `record` holds everything they depend on.

    `arrays` maps the file's arrays to the shape of a row. Chunks are in `folder`, which belongs to these predictions,
    inside `parts`, the folder of all predictions into this file.
    """

    def __init__(self, out: Path, x: Numbers, by: Predictor, rows: int | None) -> None:
        self.out, self.by, self.x = out, by, cast(ArrayLike, opened("x", x))
        shape, numbers = tuple(self.x.shape[1:]), int(np.prod(by.sample_shape))
        if shape not in (by.sample_shape, (numbers,)):
            raise ShapeError("x", shape, by.sample_shape, "as the model was fitted to", verb="has inputs of shape")
        given = np.dtype(self.x.dtype)
        self.dtype = by.dtype if by.dtype is not None else given if given.kind == "f" else np.dtype(np.float64)
        self.count = self.x.shape[0]
        needed = 8 * self.count * sum(int(np.prod(each)) for each in by.arrays.values())
        check_room(out, needed, f"predictions in {out} take", " on the way, and the disk")
        if rows is None:
            most = _INPUT_BYTES // (numbers * self.dtype.itemsize)
            rows = max(1, min(max(_ENTRIES // by.samples, _ROWS[0]), most, _ROWS[1], self.count))
            rows = min(rows, max(1, _WORK // by.work)) if by.work else rows
        self.rows, self.chunks = rows, range(-(-self.count // rows))
        arrays = by.arrays if by.classes is None else {"label": by.arrays["mean"][:-1], **by.arrays}
        self.arrays = dict([next(iter(arrays.items()))]) if out.suffix == ".npy" else arrays
        self.record: dict[str, Any] = {
            "version": __version__,
            "numbers": VERSION,
            "fingerprint": by.fingerprint,
            "labels": None if by.classes is None else [by.classes.dtype.str, repr(by.classes.tolist())],
            "inputs": rows_digest("x", self.x, self.dtype, self.count),
            "count": self.count,
            "time": by.time,
            "arrays": {name: list(each) for name, each in by.arrays.items()},
        }
        self.end = f"\nequitangents {checksum(self.record)}\n".encode()
        self.parts = out.with_name(f"{out.name}.parts")
        self.folder = self.parts / checksum({**self.record, "rows": rows})[:16]

    def path(self, chunk: int) -> Path:
        """The file of one chunk."""
        return self.folder / f"{chunk}.npz"

    def predict(self, chunk: int) -> dict[str, np.ndarray]:
        """Predict one chunk and store it."""
        span = self._span(chunk)
        rows = np.ascontiguousarray(some_rows("x", self.x, span), self.dtype).reshape(-1, *self.by.sample_shape)
        try:
            values = self.by.predict(rows)
        except (MemoryError, MemoryLimitError):
            raise MemoryLimitError(
                f"{len(rows)} inputs at once do not fit in memory; give fewer rows, or use another machine"
            ) from None
        wrong = [name for name, value in values.items() if not np.isfinite(value).all()]
        if wrong:
            raise NotFiniteError(f"{wrong[0]} of inputs {span.start} to {span.stop - 1} is NaN or infinite; not kept")
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError), atomic_file(self.path(chunk)) as partial:
                write_archive(partial, {}, list(values.values()))
                break
        return values

    def read(self, chunk: int) -> dict[str, np.ndarray]:
        """One stored chunk; FileNotFoundError or DamagedTileError."""
        span, file = self._span(chunk), self.path(chunk).open("rb")
        try:
            archive = Archive(file)
            values = {name: archive.array(number) for number, name in enumerate(self.by.arrays)}
        except (ValueError, IndexError) as error:
            raise DamagedTileError(f"{self.path(chunk)} is damaged: {error}") from None
        if any(values[name].shape != (span.stop - span.start, *shape) for name, shape in self.by.arrays.items()):
            raise DamagedTileError(f"{self.path(chunk)} holds other arrays")
        return values

    def is_done(self) -> bool:
        """Whether the file exists with these predictions."""
        with suppress(OSError), self.out.open("rb") as file:
            file.seek(-len(self.end), os.SEEK_END)
            return file.read() == self.end
        return False

    def check_name(self, force: bool) -> None:
        """Raise StoreError if another file exists and `force` is false."""
        if self.out.is_dir() or (self.out.exists() and not force):
            remedy = "give another path, or force=True (--force) to replace a file"
            raise StoreError("out", str(self.out), "a new path, or one that holds these predictions", remedy)

    def locked(self) -> AbstractContextManager[None]:
        """The lock of the process that makes the file."""
        lock = self.out.with_name(f".{self.out.name}.finishing")
        return locked(lock, f"another process is putting {self.out} together; wait for it", _PATIENCE)

    def assemble(self) -> None:
        """Assemble the file from its chunks; damaged or missing ones are predicted again."""
        with atomic_file(self.out) as partial, partial.open("wb") as file:
            if self.out.suffix == ".npy":
                self._write(file, *self.arrays)
                file.write(self.end)
            else:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                    archive.comment = self.end
                    for name in self.arrays:
                        with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                            self._write(entry, name)

    def remove(self) -> None:
        """Remove all chunks for this file; other running predictions recompute theirs."""
        with suppress(OSError):
            for name in os.listdir(self.parts):
                if _GROUP.fullmatch(name):
                    remove_all(self.parts / name)
            self.parts.rmdir()

    def _write(self, file: IO[bytes], name: str) -> None:
        labels = self.by.classes if name == "label" else None
        dtype = np.dtype(np.float64) if labels is None else labels.dtype
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
        np.lib.format.write_array_header_2_0(file, {**header, "shape": (self.count, *self.arrays[name])})
        for values in self._values():
            block = values[name] if labels is None else labels[np.argmax(values["mean"], axis=-1)]
            file.write(np.ascontiguousarray(block, dtype).tobytes())

    def _values(self) -> Iterator[dict[str, np.ndarray]]:
        for chunk in self.chunks:
            try:
                yield self.read(chunk)
            except (DamagedTileError, FileNotFoundError):
                yield self.predict(chunk)

    def _span(self, chunk: int) -> slice:
        return slice(chunk * self.rows, min((chunk + 1) * self.rows, self.count))


def write_table(path: Path, files: tuple[str, ...], predicted: Any, least: float | None) -> None:
    """Write predictions as a table: file, label and probability; for a regression file, mean and std.

    Labels with probability below `least` are empty. Names and labels that a spreadsheet would run as formulas get an
    apostrophe (`formatting.quoted`).
    """
    columns: dict[str, Any] = {"file": files}
    if "label" in predicted:
        labels, probability = predicted["label"].tolist(), predicted["probability"].max(axis=-1)
        if least is not None:
            labels = [label if p >= least else "" for label, p in zip(labels, probability, strict=True)]
        columns |= {"label": labels, "probability": probability.tolist()}
    else:
        mean = predicted["mean"].reshape(len(files), -1)
        names = ["mean"] if mean.shape[1] == 1 else [f"mean {k}" for k in range(mean.shape[1])]
        columns |= dict(zip(names, mean.T.tolist(), strict=True))
        columns["std"] = predicted["std"].reshape(len(files), -1)[:, 0].tolist()
    with atomic_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(quoted, columns))
        writer.writerows(zip(*(map(_cell, column) for column in columns.values()), strict=True))


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(quoted(str(value)))
