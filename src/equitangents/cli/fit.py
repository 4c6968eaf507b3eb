"""`equitangents fit`: infinitely wide networks trained on arrays in files, saved for `equitangents predict`."""

from __future__ import annotations

import math
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Precision,
    announced,
    byte_limit,
    in_precision,
    kept,
    one_ridge,
    shape,
    stages,
)
from equitangents.cli.completion import GROUPS, NETS, SOLVERS, among, one_of, there

if TYPE_CHECKING:
    from equitangents._types import ArrayLike
    from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
    from equitangents.fit import Choice
    from equitangents.fit.held_out import HeldOut
    from equitangents.kernels import KernelFunction

TASKS = ("auto", "regression", "classification")
REPORT = "report.html"  # beside a classifier
EXAMPLES = """equitangents fit --data tiles --group auto --out model

equitangents fit --data train.npz --net mlp --ridge 1e-3 --out model"""
_LARGE = 100  # MB of a saved model, beyond which its size is shown
_CHOICE, _NAMED, _RESULT = "Choice of the network (--net auto)", "One network (--net NAME)", "Result"


def fit(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Option(
            metavar=PLACE,
            callback=there,
            help="Inputs: .npy, .npz with x (and y), Zarr, an array or a group with x; or a folder of images, one "
            "folder a class.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the model; one that was saved there is replaced.")],
    targets: Annotated[
        str | None,
        typer.Option(
            metavar=PLACE,
            callback=there,
            help="Targets: .npy, .npz with y, or Zarr; of a folder of images a table .csv with the columns file and "
            "label. Without it y of --data, or its folders.",
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Pixels of a side, to which images are averaged down; by default the smallest side."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and name them.")
    ] = False,
    net: Annotated[
        str,
        typer.Option(
            help="auto: the best by left-out samples, for classes of 4 to 2,000 vectors or images, in --minutes; mlp "
            "for others; or mlp, cnn, FCN, VEC, LCN, GAP, LAP4, …, layers in a file.json, package.module:object.",
            autocompletion=lambda incomplete: [*among(AUTO)(incomplete), *NETS(incomplete)],
            callback=net_or_auto,
        ),
    ] = AUTO,
    minutes: Annotated[
        float, typer.Option(help="What --net auto may take; Ctrl-C takes the best so far.", rich_help_panel=_CHOICE)
    ] = 5.0,
    keep_together: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Of --net auto: samples with one entry are left out together: a column of the table of images, or an "
            "array of --data. Without it images of one folder CLASS/SOURCE are.",
            rich_help_panel=_CHOICE,
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            help="Of --net auto: nearest neighbours, a forest and an SVM on the same folds.", rich_help_panel=_CHOICE
        ),
    ] = True,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Of --net auto: only networks that predict 20 images a second, or more.",
            rich_help_panel=_CHOICE,
        ),
    ] = False,
    depth: networks.Depth = None,
    w_std: networks.WStd = networks.W_STD,
    b_std: networks.BStd = 0.1,
    group: Annotated[
        str | None,
        typer.Option(
            help="Augmentation by all elements of a group: C4, D4, S5, translations, …; of images by --net auto also "
            "auto: the best of none, C4 and D4.",
            autocompletion=lambda incomplete: [*among(AUTO)(incomplete), *GROUPS(incomplete)],
            callback=group_or_auto,
        ),
    ] = None,
    time: Annotated[float, typer.Option(help="Training time; inf: until the end.", rich_help_panel=_NAMED)] = math.inf,
    learning_rate: Annotated[
        float, typer.Option(help="Learning rate; time counts in its units.", rich_help_panel=_NAMED)
    ] = 1.0,
    ridge: Annotated[
        float,
        typer.Option(
            "--ridge",
            "--diag-reg",
            parser=one_ridge,
            metavar="<float>",
            help="Relative to the kernel's mean diagonal.",
            rich_help_panel=_NAMED,
        ),
    ] = 0.0,
    kernel: Annotated[
        str,
        typer.Option(
            help="ntk: all layers learn; nngp: the last one.", **one_of("ntk", "nngp"), rich_help_panel=_NAMED
        ),
    ] = "ntk",
    dynamics: Annotated[
        str,
        typer.Option(
            help="flow: gradient flow; discrete: time counts steps.",
            **one_of("flow", "discrete"),
            rich_help_panel=_NAMED,
        ),
    ] = "flow",
    task: Annotated[
        str,
        typer.Option(
            help="regression or classification; auto: the latter where y are whole numbers or text, one for each "
            "input, or for each position on which the network ends.",
            **one_of(*TASKS),
            rich_help_panel=_NAMED,
        ),
    ] = "auto",
    input_shape: Annotated[
        str | None,
        typer.Option(help="Shape of one input, such as 32,32,3, if rows are flattened.", rich_help_panel=_NAMED),
    ] = None,
    precision: Precision = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar=PLACE,
            help="Keep the training kernel in this folder; `equitangents gram --standardise` can fill it before.",
            rich_help_panel=_NAMED,
        ),
    ] = None,
    solver: Annotated[
        str,
        typer.Option(
            help="auto, eigh, cholesky, out-of-core, lanczos, pcg or nystrom.",
            **one_of(*SOLVERS("")),
            rich_help_panel=_NAMED,
        ),
    ] = "auto",
    memory_limit: Annotated[
        float | None,
        typer.Option(help="GB that the fit may take; by default half of what there is.", rich_help_panel=_NAMED),
    ] = None,
    standardise: Annotated[
        bool,
        typer.Option(
            help="Shift and scale inputs by the mean and deviation of each channel of --data; predict does the same."
        ),
    ] = True,
    calibrate: Annotated[
        bool | None,
        typer.Option(
            help="Probabilities that say how often a class is right, by leave-one-out; by default where it is exact.",
            show_default=False,
            rich_help_panel=_RESULT,
        ),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            help="Leave a prediction open below this probability; says how many, and how often others are right.",
            rich_help_panel=_RESULT,
        ),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            help="Of a classifier write report.html beside the model: what left-out samples tell of it.",
            rich_help_panel=_RESULT,
        ),
    ] = True,
    means_only: Annotated[
        bool,
        typer.Option(
            "--means-only", help="Save what means need, a small file; no --std afterwards.", rich_help_panel=_RESULT
        ),
    ] = False,
) -> None:
    """Train infinitely wide networks on arrays in files, or images in a folder, exactly, and save the model.

    Nothing is saved unless all of it is. With --store a fit that was killed goes on with the kernel as far as it is.
    """
    from equitangents.cli import images
    from equitangents.errors import EquitangentsError, InvalidArgumentError, StoreError

    check_confidence(min_confidence)
    shape_of_one, limit = shape(input_shape), byte_limit(memory_limit)
    other = other_option(context) if net == AUTO else None
    if net != AUTO:
        check_named(context, f"--net {net}")
        check_group(group, f"--net {net}")
    with stages() as stage:
        stage(f"reading {data}")
        of_images = (
            images.read_labelled(data, targets, size, keep_together, skip_bad, stage)
            if images.are_images(data, targets)
            else None
        )
        if of_images is None and size is not None:
            raise typer.BadParameter("it is for a folder of images; --data is none", param_hint="--size")
        x, y = _arrays(data, targets) if of_images is None else (of_images.x, of_images.y)
        together = None if of_images is None else of_images.together
        if of_images is None and keep_together is not None:
            together = _array(data, keep_together)
        stage("loading what computes kernels")
        network = networks.network("mlp" if net == AUTO else net, depth, w_std, b_std)
    settings: dict[str, Any] = {
        "augmentation": group,
        "time": time,
        "learning_rate": learning_rate,
        "ridge": ridge,
        "kernel": kernel,
        "dynamics": dynamics,
        "input_shape": shape_of_one,
        "memory_limit": limit,
        "store": store,
        "solver": solver,
        "standardise": standardise,
    }
    _check_place(out)
    before = images.digest(out)
    with stages() as stage, kept(lambda: _so_far(out, store, before)), ExitStack() as lines:
        computing = lambda: stage("computing kernels, and solving with them")
        lines.enter_context(announced("equitangents", err=True, then=computing))
        computing()
        inputs, y = in_precision(x, precision), _targets(y)
        kind = _kind(task, network, inputs, y)
        choice = None
        if net == AUTO:
            why = other or obstacle(inputs, y, "calibrate" in kind(network).get_params(deep=False))
            if why is not None:
                check_named(context, why)
                check_group(group, why)
                typer.echo(f"network: mlp ({why}, which auto does not take)", err=True)
            else:
                from equitangents.fit import auto

                choice = auto(
                    inputs,
                    y,
                    augmentation=group,
                    together=together,
                    minutes=minutes,
                    baselines=baselines,
                    fast=fast,
                    standardise=standardise,
                    progress=progress(stage),
                )
        if choice is None:
            if calibrate is not None:
                if "calibrate" not in kind(network).get_params(deep=False):
                    raise typer.BadParameter(
                        "probabilities are those of classes; the task is regression", param_hint="--calibrate"
                    )
                settings["calibrate"] = calibrate
            try:
                model: Any = kind(network, **settings).fit(inputs, y)
            except StoreError as error:
                if store is None or not standardise:
                    raise
                raise StoreError(
                    f"{error}; inputs are standardised now: fill the store by gram --standardise, or fit inputs as "
                    "they are (--no-standardise)"
                ) from None
            if calibrate is None and hasattr(model, "classes_") and model.solution_.solver == "eigh":
                with suppress(EquitangentsError):  # which the line on calibration says
                    model._calibrate()
        else:
            model = choice.model
        if min_confidence is not None and getattr(model, "temperature_", None) is None:
            raise InvalidArgumentError(
                "min_confidence is given, and this model has no calibrated probabilities; expected a classifier that "
                "is solved by eigh: leave it out, or give --calibrate"
            )
        model.save(out, means_only=means_only)
    with kept(lambda: _saved(out)):
        if report and hasattr(model, "classes_"):
            (out / REPORT).unlink(missing_ok=True)  # of the model that was there before
        if of_images is not None:
            images.keep_form(of_images.form, out)
        typer.echo(_said(model, out))
        megabytes = (out / "model.npz").stat().st_size / 1e6
        if megabytes > _LARGE:
            typer.echo(
                f"size: {megabytes:,.0f} MB (inputs and decomposition); --means-only keeps what predictions need"
            )
        files = () if of_images is None else of_images.files
        if hasattr(model, "classes_"):
            for line in (images.held_out(model), images.calibration(model)) if choice is None else said(choice, files):
                typer.echo(line)
            if min_confidence is not None:
                typer.echo(answered(_held_out(model, choice), min_confidence))
            if report:
                _report(model, data, out, files, choice, min_confidence)
            new = "NEW_FOLDER --out predictions.csv" if of_images is not None else "NEW.npy --out predictions.npz --std"
            more = f" --min-confidence {min_confidence:g}" if min_confidence and of_images is not None else ""
            typer.echo(f"next: equitangents predict {out} --data {new}{more}")


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
    from equitangents.errors import InvalidArgumentError
    from equitangents.files import may_write, real
    from equitangents.planning.question import check_writable

    check_place(out)
    if not out.exists():
        check_writable("out", real(out))
    elif not may_write(out):
        raise InvalidArgumentError(f"out is {str(out)!r}, which may not be written; choose another folder")


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
