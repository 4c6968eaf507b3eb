"""`equitangents fit`: infinitely wide networks trained on arrays in files, saved for `equitangents predict`."""

from __future__ import annotations

import math
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli import networks
from equitangents.cli.choosing import (
    AUTO,
    answered,
    check_confidence,
    check_group,
    check_named,
    group_or_auto,
    net_or_auto,
    obstacle,
    other_option,
    progress,
    said,
)
from equitangents.cli.common import (
    PLACE,
    announced,
    byte_limit,
    command,
    flag,
    in_precision,
    kept,
    one_ridge,
    option,
    shape,
    stages,
)
from equitangents.cli.completion import GROUPS, NETS, SOLVERS, among, one_of, there
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    from equitangents._types import ArrayLike
    from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
    from equitangents.fit import Choice
    from equitangents.fit.held_out import HeldOut
    from equitangents.kernels import KernelFunction

REPORT = "report.html"  # beside a classifier
EXAMPLES = """equitangents fit --data tiles --group auto --out model

equitangents fit --data train.npz --net mlp --ridge 1e-3 --out model"""
_LARGE = 100  # MB of a saved model, beyond which its size is shown


_INPUTS = {
    "data": option(
        str,
        "Inputs: .npy, .npz with x (and y), Zarr, an array or a group with x; or a folder of images, one folder a "
        "class.",
        ...,
        metavar=PLACE,
        callback=there,
    ),
    "out": option(Path, "Folder of the model; one that was saved there is replaced.", ...),
    "targets": option(
        str,
        "Targets: .npy, .npz with y, or Zarr; of a folder of images a table .csv with the columns file and label. "
        "Without it y of --data, or its folders.",
        metavar=PLACE,
        callback=there,
    ),
    "size": option(int, "Pixels of a side, to which images are averaged down; by default the smallest side.", min=1),
    "skip_bad": flag("Leave out images that cannot be read, and name them."),
    "net": option(
        str,
        "auto: the best by left-out samples, for classes of 4 to 2,000 vectors or images, in --minutes; mlp for "
        "others; or mlp, cnn, FCN, VEC, LCN, GAP, LAP4, …, layers in a file.json, package.module:object.",
        AUTO,
        autocompletion=lambda incomplete: [*among(AUTO)(incomplete), *NETS(incomplete)],
        callback=net_or_auto,
    ),
    **networks.SHAPE,
    "group": option(
        str,
        "Augmentation by all elements of a group: C4, D4, S5, translations, …; of images by --net auto also auto: the "
        "best of none, C4 and D4.",
        autocompletion=lambda incomplete: [*among(AUTO)(incomplete), *GROUPS(incomplete)],
        callback=group_or_auto,
    ),
    "precision": option(
        str,
        "float32 or float64; by default that of the inputs, float64 for whole numbers, and float32 for images of --net "
        "auto.",
        **one_of("float32", "float64"),
    ),
    "standardise": option(
        bool, "Shift and scale inputs by the mean and deviation of each channel of --data; predict does the same.", True
    ),
}
_CHOICE = {
    "minutes": option(float, "What --net auto may take; Ctrl-C takes the best so far.", 5.0),
    "keep_together": option(
        str,
        "Of --net auto: samples with one entry are left out together: a column of the table of images, or an array of "
        "--data. Without it images of one folder CLASS/SOURCE are.",
        metavar="COLUMN",
    ),
    "baselines": option(bool, "Of --net auto: nearest neighbours, a forest and an SVM on the same folds.", True),
    "fast": flag("Of --net auto: only networks that predict 20 images a second, or more."),
}
_NAMED = {
    "time": option(float, "Training time; inf: until the end.", math.inf),
    "learning_rate": option(float, "Learning rate; time counts in its units.", 1.0),
    "ridge": option(
        float,
        "Relative to the kernel's mean diagonal.",
        0.0,
        "--ridge",
        "--diag-reg",
        parser=one_ridge,
        metavar="<float>",
    ),
    "kernel": option(str, "ntk: all layers learn; nngp: the last one.", "ntk", **one_of("ntk", "nngp")),
    "dynamics": option(str, "flow: gradient flow; discrete: time counts steps.", "flow", **one_of("flow", "discrete")),
    "task": option(
        str,
        "regression or classification; auto: the latter where y are whole numbers or text, one for each input, or for "
        "each position on which the network ends.",
        "auto",
        **one_of("auto", "regression", "classification"),
    ),
    "input_shape": option(str, "Shape of one input, such as 32,32,3, if rows are flattened."),
    "store": option(
        str,
        "Keep the training kernel in this folder; `equitangents gram --standardise` can fill it before.",
        metavar=PLACE,
    ),
    "solver": option(
        str, "auto, eigh, cholesky, out-of-core, lanczos, pcg or nystrom.", "auto", **one_of(*SOLVERS(""))
    ),
    "memory_limit": option(float, "GB that the fit may take; by default half of what there is."),
}
_RESULT = {
    "calibrate": option(
        bool,
        "Probabilities that say how often a class is right, by leave-one-out; by default where it is exact.",
        show_default=False,
    ),
    "min_confidence": option(
        float, "Leave a prediction open below this probability; says how many, and how often others are right."
    ),
    "report": option(bool, "Of a classifier write report.html beside the model: what left-out samples tell.", True),
    "means_only": flag("Save what means need, a small file; no --std afterwards."),
}


@command(
    (None, _INPUTS),
    ("Choice of the network (--net auto)", _CHOICE),
    ("One network (--net NAME)", _NAMED),
    ("Result", _RESULT),
)
def fit(o: Any) -> None:
    """Train infinitely wide networks on arrays in files, or images in a folder, exactly, and save the model.

    Nothing is saved unless all of it is. With --store a fit that was killed goes on with the kernel as far as it is.
    """
    from equitangents.cli import images
    from equitangents.errors import EquitangentsError, StoreError

    check_confidence(o.min_confidence)
    shape_of_one, limit = shape(o.input_shape), byte_limit(o.memory_limit)
    other = other_option(o.context) if o.net == AUTO else None
    if o.net != AUTO:
        check_named(o.context, f"--net {o.net}")
        check_group(o.group, f"--net {o.net}")
    with stages() as stage:
        stage(f"reading {o.data}")
        of_images = (
            images.read_labelled(o.data, o.targets, o.size, o.keep_together, o.skip_bad, stage)
            if images.are_images(o.data, o.targets)
            else None
        )
        if of_images is None and o.size is not None:
            raise InvalidArgumentError("--size", o.size, "none, since --data is no folder of images")
        x, y = _arrays(o.data, o.targets) if of_images is None else (of_images.x, of_images.y)
        together = None if of_images is None else of_images.together
        if of_images is None and o.keep_together is not None:
            together = _array(o.data, o.keep_together)
        stage("loading what computes kernels")
        network = networks.network("mlp" if o.net == AUTO else o.net, o.depth, o.w_std, o.b_std)
    settings: dict[str, Any] = {
        "augmentation": o.group,
        "time": o.time,
        "learning_rate": o.learning_rate,
        "ridge": o.ridge,
        "kernel": o.kernel,
        "dynamics": o.dynamics,
        "input_shape": shape_of_one,
        "memory_limit": limit,
        "store": o.store,
        "solver": o.solver,
        "standardise": o.standardise,
    }
    _check_place(o.out)
    before = images.digest(o.out)
    with stages() as stage, kept(lambda: _so_far(o.out, o.store, before)), ExitStack() as lines:
        computing = lambda: stage("computing kernels, and solving with them")
        lines.enter_context(announced("equitangents", err=True, then=computing))
        computing()
        inputs, y = in_precision(x, o.precision), _targets(y)
        kind = _kind(o.task, network, inputs, y)
        choice = None
        if o.net == AUTO:
            why = other or obstacle(inputs, y, "calibrate" in kind(network).get_params(deep=False))
            if why is not None:
                check_named(o.context, why)
                check_group(o.group, why)
                typer.echo(f"network: mlp ({why}, which auto does not take)", err=True)
            else:
                from equitangents.fit import auto

                choice = auto(
                    inputs,
                    y,
                    augmentation=o.group,
                    together=together,
                    minutes=o.minutes,
                    baselines=o.baselines,
                    fast=o.fast,
                    standardise=o.standardise,
                    precision=o.precision,
                    progress=progress(stage),
                )
        if choice is None:
            if o.calibrate is not None:
                if "calibrate" not in kind(network).get_params(deep=False):
                    raise InvalidArgumentError("--calibrate", o.calibrate, "none, since the task is regression")
                settings["calibrate"] = o.calibrate
            try:
                model: Any = kind(network, **settings).fit(inputs, y)
            except StoreError as error:
                if o.store is None or not o.standardise:
                    raise
                raise StoreError(
                    "store",
                    o.store,
                    "the kernel of standardised inputs",
                    "fill it by gram --standardise, or fit inputs as they are (--no-standardise)",
                ) from error
            if o.calibrate is None and hasattr(model, "classes_") and model.solution_.solver == "eigh":
                with suppress(EquitangentsError):  # which the line on calibration says
                    model._calibrate()
        else:
            model = choice.model
        if o.min_confidence is not None and getattr(model, "temperature_", None) is None:
            raise InvalidArgumentError(
                "min_confidence", o.min_confidence, "a calibrated classifier", "leave it out, or give --calibrate"
            )
        model.save(o.out, means_only=o.means_only)
    with kept(lambda: _saved(o.out)):
        if o.report and hasattr(model, "classes_"):
            (o.out / REPORT).unlink(missing_ok=True)  # of the model that was there before
        if of_images is not None:
            images.keep_form(of_images.form, o.out)
        typer.echo(_said(model, o.out))
        megabytes = (o.out / "model.npz").stat().st_size / 1e6
        if megabytes > _LARGE:
            typer.echo(
                f"size: {megabytes:,.0f} MB (inputs and decomposition); --means-only keeps what predictions need"
            )
        files = () if of_images is None else of_images.files
        if hasattr(model, "classes_"):
            for line in (images.held_out(model), images.calibration(model)) if choice is None else said(choice, files):
                typer.echo(line)
            if o.min_confidence is not None:
                typer.echo(answered(_held_out(model, choice), o.min_confidence))
            if o.report:
                _report(model, o.data, o.out, files, choice, o.min_confidence)
            new = "NEW_FOLDER --out predictions.csv" if of_images is not None else "NEW.npy --out predictions.npz --std"
            more = f" --min-confidence {o.min_confidence:g}" if o.min_confidence and of_images is not None else ""
            typer.echo(f"next: equitangents predict {o.out} --data {new}{more}")


def _held_out(model: Any, choice: Choice | None) -> HeldOut:
    from equitangents.fit.held_out import HeldOut

    return HeldOut.of(model) if choice is None else choice.score.held


def _so_far(out: Path, store: str | None, before: str | None) -> str:
    """What is kept of a fit that was interrupted; `before`: the digest of the model that was there."""
    from equitangents.cli import images

    if (now := images.digest(out)) is not None and now != before:
        return _saved(out)
    if store is not None:
        return f"the kernel is kept in {store} as far as it is: the same command goes on"
    kept = f"{out} is as it was" if out.exists() else "no model is saved"
    return f"{kept}: the same command starts again; with --store FOLDER the kernel is kept as far as it is"


def _saved(out: Path) -> str:
    """What is kept of a fit that was interrupted once its model was saved."""
    report = "and its report" if (out / REPORT).exists() else "its report is missing"
    return f"the model is saved in {out}, {report}: equitangents predict {out} goes on with it"


def _report(
    model: Any, data: str, out: Path, names: tuple[str, ...], choice: Choice | None, min_confidence: float | None
) -> None:
    """Write what left-out samples tell beside the model, where there are any to be had."""
    from equitangents.errors import EquitangentsError
    from equitangents.fit.page import held_out_page
    from equitangents.report import write

    if model.solution_.solver != "eigh":
        typer.echo(f"report: not made, since {model.solution_.solver} keeps no decomposition")
        return
    if model.positions_:
        typer.echo("report: not made: classes are at positions, and the page is of one class a sample")
        return
    suffix = "NEW_FOLDER --out predictions.csv" if names else "NEW.npy --out predictions.npz"
    try:
        page = held_out_page(
            model,
            names,
            title=f"What was learnt from {data}",
            next_command=f"equitangents predict {out} --data {suffix}",
            choice=choice,
            min_confidence=min_confidence,
        )
    except EquitangentsError as error:
        typer.echo(f"report: not made: {error}", err=True)
        return
    typer.echo(f"report: {write(page, out / REPORT)}")


def _arrays(data: str, targets: str | None) -> tuple[Any, Any]:
    from equitangents.scale.reading import read_inputs, read_pair

    if targets is None:
        return read_pair(data)
    return read_inputs("data", data), read_inputs("targets", targets, "y")


def _array(data: str, key: str) -> Any:
    from equitangents.scale.reading import read_inputs

    return read_inputs("data", data, key)[:]


def _kind(
    task: str, network: KernelFunction, x: ArrayLike, y: ArrayLike
) -> type[InfiniteEnsemble | InfiniteEnsembleClassifier]:
    from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
    from equitangents.ensembles.fields.targets import output_positions

    labels = y.dtype.kind in "iuUSb"
    if labels and y.ndim > 1:  # one at every position, if each sample has as many as the network ends on
        positions = output_positions(network, x, y)
        labels = positions is not None and y.shape[1:] == positions.shape
    if task == "classification" or (task == "auto" and labels):
        return InfiniteEnsembleClassifier
    return InfiniteEnsemble


def _targets(y: ArrayLike) -> Any:
    import numpy as np

    from equitangents.array_files import text_of

    y = np.asarray(y)
    return text_of(y) if y.dtype.kind == "S" else y


def _check_place(out: Path) -> None:
    """Raise before the work is done where a model cannot be saved."""
    from equitangents.ensembles.storage.array_folder import check_place
    from equitangents.files import may_write, real
    from equitangents.planning.question import check_writable

    check_place(out)
    if not out.exists():
        check_writable("out", real(out))
    elif not may_write(out):
        raise InvalidArgumentError("out", str(out), "a folder that may be written")


def _said(model: Any, out: Path) -> str:
    from equitangents.ensembles.estimator import positions_of

    kind = "classifier" if hasattr(model, "classes_") else "regression"
    trained = len(model._data[0])
    outputs = getattr(model, "n_outputs_", 1)
    what = f"{outputs} output{'s' if outputs > 1 else ''}"
    if hasattr(model, "classes_"):
        what = f"{len(model.classes_)} classes"
    if grid := positions_of(model):
        what += f" at each of {'×'.join(map(str, grid))} positions"
    return f"{out}: {kind} of {trained:,} samples, {what}; solved as {model.solver_}{_by(model.solution_)}"


def _by(report: Any) -> str:
    """What solved it, where that is not the decomposition."""
    if report.solver == "eigh":
        return ""
    error = f", estimated error {report.error:.1e} of the targets" if report.error else ""
    return f" by {report.solver} (relative residual {report.residual:.1e}{error})"
