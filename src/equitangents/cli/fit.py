"""`equitangents fit`: infinitely wide networks trained on arrays in files, saved for `equitangents predict`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli import networks
from equitangents.cli.choosing import (
    AUTO,
    REGRESSION,
    check_group,
    check_named,
    group_or_auto,
    net_or_auto,
    obstacle,
    other_option,
    progress,
)
from equitangents.cli.common import (
    PLACE,
    announced,
    command,
    flag,
    in_precision,
    kept,
    option,
    stages,
)
from equitangents.cli.completion import (
    GROUPS,
    NETS,
    SOLVERS,
    among,
    check_writable,
    gigabytes,
    one_of,
    one_ridge,
    probability,
    shape,
    there,
)
from equitangents.errors import EquitangentsError, InvalidArgumentError, StoreError

if TYPE_CHECKING:
    from equitangents._types import ArrayLike
    from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
    from equitangents.ensembles.infinite.tuning import Tuning
    from equitangents.fit import Choice
    from equitangents.kernels import KernelFunction

REPORT = "report.html"  # beside a classifier
EXAMPLES = """equitangents fit --data tiles --group auto --out model

equitangents fit --data train.npz --net mlp --ridge 1e-3 --out model"""
_LARGE = 100  # MB of a saved model, beyond which its size is shown
_DEPTHS = (1, 2, 4)  # of regressions
_PAIRS = 5  # near-duplicates that are named


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
        "best of none, C4, D4, C8 and D8.",
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
        str,
        "Relative to the kernel's mean diagonal.",
        "0.0",
        "--ridge",
        "--diag-reg",
        callback=one_ridge,
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
    "input_shape": option(str, "Shape of one input, such as 32,32,3, if rows are flattened.", callback=shape),
    "store": option(
        str,
        "Keep the training kernel in this folder; `equitangents gram --standardise` can fill it before.",
        metavar=PLACE,
    ),
    "solver": option(
        str, "auto, eigh, cholesky, out-of-core, lanczos, pcg or nystrom.", "auto", **one_of(*SOLVERS(""))
    ),
    "memory_limit": option(float, "GB that the fit may take; by default half of what there is.", callback=gigabytes),
}
_RESULT = {
    "calibrate": option(
        bool,
        "Probabilities that say how often a class is right, by leave-one-out; by default where it is exact.",
        show_default=False,
    ),
    "min_confidence": option(
        float,
        "Leave a prediction open below this probability; says how many, and how often others are right.",
        callback=probability,
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

    settings: dict[str, Any] = {name: getattr(o, name) for name in _NAMED if name != "task"}
    settings |= {"augmentation": o.group, "standardise": o.standardise}
    other = other_option(o.context, (*networks.SHAPE, *_NAMED.keys() - {"task"})) if o.net == AUTO else None
    if o.net != AUTO:
        _check_named(o, f"--net {o.net}")
    with stages() as stage:
        stage(f"reading {o.data}")
        of_images, x, y, together = _read(o, stage)
        stage("loading what computes kernels")
        import numpy as np

        from equitangents.array_files import text_of

        network = networks.network("mlp" if o.net == AUTO else o.net, o.depth, o.w_std, o.b_std)
    _check_place(o.out)
    before = images.digest(o.out)
    with stages() as stage, kept(lambda: _so_far(o.out, o.store, before)), ExitStack() as lines:
        computing = lambda: stage("computing kernels, and solving with them")
        lines.enter_context(announced("equitangents", err=True, then=computing))
        computing()
        inputs, y = in_precision(x, o.precision), np.asarray(y)
        y = text_of(y) if y.dtype.kind == "S" else y
        kind = _kind(o.task, network, inputs, y)
        choice, tuned = None, None
        if o.net == AUTO:
            why = other or obstacle(inputs, y, _classifies(kind))
            if why is None:
                choice = _chosen(o, inputs, y, together, stage)
            else:
                _check_named(o, why)
                tuned = _tuned(o, kind(network, **settings), inputs, y) if why == REGRESSION else None
                if tuned is None:
                    typer.echo(f"network: mlp ({why})", err=True)
        if choice is not None:
            model: Any = choice.model
        else:
            model = _fitted(o, kind(network, **settings), inputs, y) if tuned is None else tuned.best
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
        _show(o, model, choice, tuned, None if of_images is None else of_images.files)


def _check_named(o: Any, why: str) -> None:
    """Raise where an option of --net auto is given and `why` another network is fitted."""
    check_named(o.context, _CHOICE, why)
    check_group(o.group, why)


def _read(o: Any, stage: Callable[[str], None]) -> tuple[Any, Any, Any, Any]:
    """(the images with their form, None for arrays; x; y; what leaves together, or None)."""
    from equitangents.cli import images

    if images.are_images(o.data, o.targets):
        found = images.read_labelled(o.data, o.targets, o.size, o.keep_together, o.skip_bad, stage)
        return found, found.x, found.y, found.together
    if o.size is not None:
        raise InvalidArgumentError("--size", o.size, "none, since --data is no folder of images")
    from equitangents.scale.reading import read_inputs, read_pair

    apart = (read_inputs("data", o.data), read_inputs("targets", o.targets, "y")) if o.targets is not None else None
    x, y = apart or read_pair(o.data)
    return None, x, y, None if o.keep_together is None else read_inputs("data", o.data, o.keep_together)[:]


def _chosen(o: Any, x: Any, y: Any, together: Any, stage: Callable[[str], None]) -> Choice:
    from equitangents.fit import auto

    own = {name: getattr(o, name) for name in ("minutes", "baselines", "fast", "standardise", "precision")}
    return auto(x, y, augmentation=o.group, together=together, progress=progress(stage), **own)


def _tuned(o: Any, model: Any, x: Any, y: Any) -> Tuning[InfiniteEnsemble] | None:
    """An mlp of the depth, kernel and ridge of the smallest leave-one-out error; None where samples are too many."""
    from equitangents.fit import LEAST, MOST
    from equitangents.fit.left_out import RIDGES

    if o.calibrate is not None or not LEAST <= len(x) <= MOST:
        return None
    return model.tune({"depth": _DEPTHS, "kernel": ("ntk", "nngp"), "ridge": RIDGES}, x, y)


def _of_tuning(tuned: Tuning[InfiniteEnsemble], y: Any) -> dict[str, str]:
    """The error of left-out samples beside that of the mean of the others, and what was chosen: labels and values."""
    others = (y.sum(axis=0) - y) / (len(y) - 1)
    found = tuned.best_params
    return {
        "Leave-one-out mean squared error": f"{tuned.best_score:.4g}",
        "Of the mean of the others": f"{((y - others) ** 2).mean():.4g}",
        "Hidden layers": str(found["depth"]),
        "Kernel, ridge": f"{found['kernel']}, {found['ridge']:.0e}",
    }


def _classifies(kind: Any) -> bool:
    return "calibrate" in kind.__dataclass_fields__


def _fitted(o: Any, model: Any, x: Any, y: Any) -> Any:
    """The model, fitted; a classifier calibrated where leave-one-out is exact, or as --calibrate says."""
    if o.calibrate is not None:
        if not _classifies(model):
            raise InvalidArgumentError("--calibrate", o.calibrate, "none, since the task is regression")
        model.set_params(calibrate=o.calibrate)
    try:
        model.fit(x, y)
    except StoreError as error:
        if o.store is None or not o.standardise:
            raise
        raise StoreError(
            "store",
            o.store,
            "the kernel of standardised inputs",
            "fill it by gram --standardise, or fit inputs as they are (--no-standardise)",
        ) from error
    if o.calibrate is None and _classifies(model) and model.solution_.solver == "eigh":
        with suppress(EquitangentsError):  # which the result says
            model._calibrate()
    return model


def _show(
    o: Any, model: Any, choice: Choice | None, tuned: Tuning[InfiniteEnsemble] | None, files: Sequence[str] | None
) -> None:
    """Print the result: of a classifier how right it is, first, and write its report."""
    from equitangents.fit.result import ACCURACY
    from equitangents.report import Table
    from equitangents.report.render import text_of

    table = lambda caption, rows: Table(caption, [""] * len(rows[0]), rows, text=True)
    rows, next_command = {} if tuned is None else _of_tuning(tuned, model._data[1]), ""
    if hasattr(model, "classes_"):
        new = "NEW.npy --out predictions.npz --std" if files is None else "NEW_FOLDER --out predictions.csv"
        least = f" --min-confidence {o.min_confidence:g}" if o.min_confidence and files is not None else ""
        next_command = f"equitangents predict {o.out} --data {new}{least}"
        rows = _scored(model, choice, o.min_confidence)
        if o.report:
            made = _report(o, model, choice, files or (), next_command) if ACCURACY in rows else "not made"
            rows["Report"] = made
    typer.echo(text_of(table("", [*(rows | _of_model(model, o.out)).items()])), nl=False)
    if choice is not None:
        shown = [choice.scores, choice.candidates, *([choice.turning] if choice.turned else [])]
        if choice.refused:
            shown.append(table("refused", choice.refused))
        if pairs := choice.near_duplicates[:_PAIRS]:
            names = [[str(i) if files is None else files[i] for i in pair] for pair in pairs]
            shown.append(table("near-duplicates (--keep-together)", names))
        typer.echo(text_of(*shown), nl=False)
    if next_command:
        typer.echo(f"next: {next_command}")


def _scored(model: Any, choice: Choice | None, least: float | None) -> dict[str, str]:
    """How right a classifier is on left-out samples, or why it is not known: labels and values."""
    from equitangents.fit.held_out import HeldOut
    from equitangents.fit.page import facts_of
    from equitangents.formatting import percent

    unknown = "Left-out samples not known"
    if choice is not None:
        return facts_of(model, choice.score.held, choice, least)
    if model.solution_.solver != "eigh":
        return {unknown: f"{model.solution_.solver} keeps no decomposition (--solver eigh)"}
    try:
        if model.positions_:
            return {"Labels of left-out samples that are right": percent(model.leave_one_out_.accuracy)}
        return facts_of(model, HeldOut.of(model), None, least)
    except EquitangentsError as error:
        return {unknown: str(error)}


def _report(o: Any, model: Any, choice: Choice | None, names: Sequence[str], next_command: str) -> str:
    """Write what left-out samples tell beside the model."""
    from equitangents.fit.page import held_out_page
    from equitangents.report import write

    page = held_out_page(
        model,
        names,
        title=f"What was learnt from {o.data}",
        next_command=next_command,
        choice=choice,
        min_confidence=o.min_confidence,
    )
    return str(write(page, o.out / REPORT))


def _of_model(model: Any, out: Path) -> dict[str, str]:
    """What is saved and how it was solved: labels and values."""
    from equitangents.ensembles.estimator import positions_of

    solution, megabytes = model.solution_, (out / "model.npz").stat().st_size / 1e6
    rows = {"Model": str(out), "Samples": f"{len(model._data[0]):,}"}
    if hasattr(model, "classes_"):
        rows["Classes"] = str(len(model.classes_))
    else:
        rows["Outputs"] = str(getattr(model, "n_outputs_", 1))
    if grid := positions_of(model):
        rows["Positions"] = "×".join(map(str, grid))
    rows["Solved as"] = model.solver_
    if solution.solver != "eigh":
        rows |= {"Solver": solution.solver, "Relative residual": f"{solution.residual:.1e}"}
        if solution.error:
            rows["Estimated error of the targets"] = f"{solution.error:.1e}"
    if megabytes > _LARGE:
        rows["MB (--means-only: fewer)"] = f"{megabytes:,.0f}"
    return rows


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


def _check_place(out: Path) -> None:
    """Raise before the work is done where a model cannot be saved."""
    from equitangents.ensembles.storage.array_folder import check_place
    from equitangents.files import may_write, real

    check_place(out)
    if not out.exists():
        check_writable("out", real(out))
    elif not may_write(out):
        raise InvalidArgumentError("out", str(out), "a folder that may be written")
