"""`equitangents fit`: train infinitely wide networks on arrays or images in files, and save them for `predict`."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli import images
from equitangents.cli import options as cli
from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.formatting import duration, formatted

if TYPE_CHECKING:
    import numpy as np

    from equitangents.ensembles import InfiniteEnsemble
    from equitangents.ensembles.infinite.tuning import Tuning
    from equitangents.fit import Choice, Step
    from equitangents.kernels import KernelFunction

REPORT = "report.html"  # in the folder of a classifier
_PAIRS = 5  # near-duplicates that are printed
_REGRESSION = "regression"
_gigabytes = cli.numbers("a positive number of GB", lambda size: 0 < size < math.inf)

_DATA = cli.panel(
    "Data",
    data=cli.path("Inputs: .npy, .npz or Zarr with x (and y), or a folder of images, one folder per class.", ...),
    targets=cli.path(
        "Targets: .npy, .npz with y, or Zarr; for images a .csv table with the columns file and label. By default y of "
        "--data, or its folders."
    ),
    size=cli.option(int, "Side in pixels to which images are reduced, by default the smallest side.", min=1),
    skip_bad=cli.flag("Skip images that cannot be read, and list them."),
)
_NETWORK = cli.panel(
    "Network",
    net=cli.option(
        str,
        "auto chooses the best on left-out samples, if there are 4 to 2,000 labelled vectors or images, and is mlp for "
        f"other data; or {cli.NETS}.",
        cli.AUTO,
        metavar="NET",
        **cli.a_net(cli.AUTO),
    ),
    **cli.SHAPE,
    group=cli.option(
        str,
        "Augment by all elements of a group: C4, D4, S5, translations, …. For images with --net auto, auto chooses "
        "the best of none, C4, D4, C8 and D8.",
        metavar="NAME",
        **cli.a_group(cli.AUTO),
    ),
    precision=cli.PRECISION,
    standardise=cli.option(bool, "Standardise each channel by its mean and standard deviation over --data.", True),
)
_CHOICE = cli.panel(
    "Choice of the network (--net auto)",
    minutes=cli.option(float, "Time limit in minutes. Ctrl-C takes the best so far.", 5.0),
    keep_together=cli.option(
        str,
        "Leave out samples together if they have the same value in this column of --targets or array of --data; by "
        "default, images of one folder CLASS/SOURCE.",
        metavar="COLUMN",
    ),
    baselines=cli.option(bool, "Compare with nearest neighbours, a random forest and an SVM.", True),
    fast=cli.flag("Try only networks that predict 20 images a second or more."),
)
_NAMED = cli.panel(
    "One network (--net NAME)",
    time=cli.option(float, "Training time; inf trains to convergence.", math.inf),
    learning_rate=cli.option(float, "Learning rate, the unit of time.", 1.0),
    ridge=cli.option(float, "Ridge, relative to the kernel's mean diagonal.", 0.0, "--ridge", "--diag-reg"),
    kernel=cli.pick("Train all layers (ntk) or only the last one (nngp)", "ntk", "ntk", "nngp"),
    dynamics=cli.pick("Gradient flow, or discrete steps of gradient descent", "flow", "flow", "discrete"),
    task=cli.pick(
        "Kind of targets; with auto, whole numbers and text are classes",
        "auto",
        *("auto", "regression", "classification"),
    ),
    input_shape=cli.option(
        str, "Shape of one input, such as 32,32,3, if rows are flattened.", metavar="N,N,…", callback=cli.shape
    ),
    store=cli.option(
        str, "Keep the training kernel here; `gram --standardise` can compute it beforehand.", metavar=cli.PLACE
    ),
    solver=cli.pick("How the linear system is solved", "auto", *cli.SOLVERS),
    memory_limit=cli.number("Memory limit in GB, by default half of the available memory.", _gigabytes),
)
_RESULT = cli.panel(
    "Result",
    calibrate=cli.option(
        bool, "Calibrate probabilities by leave-one-out; by default if it is exact.", show_default=False
    ),
    min_confidence=cli.number("Leave a label empty if its probability is lower.", cli.probability),
    report=cli.option(bool, "Write report.html of a classifier to the folder of the model.", True),
)


@cli.command(
    **_DATA,
    out=cli.option(Path, "Folder of the model. A model saved there is replaced.", ..., metavar="FOLDER"),
    **_NETWORK,
    **_CHOICE,
    **_NAMED,
    **_RESULT,
)
def fit(o: Any) -> None:
    """Train an infinitely wide network on arrays in files or images in a folder, and save the model.

    equitangents fit --data tiles --group auto --out model

    equitangents fit --data train.npz --net mlp --ridge 1e-3 --out model

    A model is saved only when it is complete. With --store, an interrupted fit resumes with the kernel it has.
    """
    source = o.context.get_parameter_source
    given = {p.name for p in o.context.command.params if getattr(source(p.name), "name", "") == "COMMANDLINE"}
    unexpected = lambda name, *more: InvalidArgumentError(name, getattr(o, name), *more, verb="was given as")
    why = None if o.net == cli.AUTO else f"--net {o.net}"  # why no network is chosen
    if named := [name for name in {**cli.SHAPE, **_NAMED} if name in given and name != "task"]:
        if o.net == cli.AUTO and "net" in given:
            raise unexpected(named[0], "none with --net auto", "leave it out, or name a network by --net")
        why = why or f"auto takes no {named[0]}"
    with cli.stages() as stage:
        stage(f"reading {o.data}")
        labelled, x, y, together = _read(o, stage)
        stage("importing JAX")
        import numpy as np

        from equitangents.ensembles.fields import classifies_by
        from equitangents.ensembles.infinite import saving
        from equitangents.ensembles.saved_folder import MODEL, check_place
        from equitangents.foreign_files import text_of

        net = cli.network("mlp" if o.net == cli.AUTO else o.net, o.depth, o.w_std, o.b_std)
    check_place(o.out, "out")  # before the work is done
    cli.check_writable("out", o.out / MODEL)
    with cli.stages() as stage, cli.announced("equitangents"):
        stage("computing kernels and solving")
        with np.errstate(over="ignore"):  # infinite numbers are refused
            x, y = x if o.precision is None else np.asarray(x, o.precision), np.asarray(y)
        y = text_of(y) if y.dtype.kind == "S" else y
        classifies = classifies_by(o.task, net, x, y)
        why = why or _obstacle(x, y, classifies)
        choice = None
        tuning: dict[str, str] = {}
        if why is None:
            choice = _chosen(o, x, y, together, stage)
            model: Any = choice.model
        else:
            for name in given & _CHOICE.keys():
                raise unexpected(name, "none without --net auto", why)
            if o.group == cli.AUTO:
                raise InvalidArgumentError("group", cli.AUTO, "C4, D4, ...; 'auto' is for --net auto", why)
            model, tuning = _fitted(o, net, x, y, classifies, why)
            if o.net == cli.AUTO and not tuning:
                typer.echo(f"network: mlp ({why})", err=True)
        if o.min_confidence is not None and getattr(model, "temperature_", None) is None:
            raise InvalidArgumentError(
                "min_confidence", o.min_confidence, "a calibrated classifier", "leave it out, or give --calibrate"
            )
        saving.save(model, o.out, None if labelled is None else dataclasses.asdict(labelled.form))
    if o.report and classifies:
        (o.out / REPORT).unlink(missing_ok=True)  # of an earlier model
    _show(o, model, choice, tuning, () if labelled is None else labelled.files)


def _read(o: Any, stage: Callable[[str], None]) -> tuple[Any, Any, Any, Any]:
    """(the images with their form, None for arrays; x; y; the value that samples left out together share, or None)."""
    if images.are_images(o.data, o.targets):
        labelled = images.read_labelled(o, stage)
        return labelled, labelled.x, labelled.y, labelled.together
    if o.size is not None:
        raise InvalidArgumentError("--size", o.size, "none, since --data is no folder of images")
    from equitangents.scale.reading import read_inputs, read_pair

    if o.targets is None:
        x, y = read_pair(o.data)
    else:
        x, y = read_inputs("data", o.data), read_inputs("targets", o.targets, "y")
    return None, x, y, None if o.keep_together is None else read_inputs("data", o.data, o.keep_together)[:]


def _obstacle(x: np.ndarray, y: np.ndarray, classifies: bool) -> str | None:
    """Why no network can be chosen, so that `mlp` is fitted; None if one can."""
    from equitangents.fit import MAX_SAMPLES, MIN_SAMPLES

    if not classifies:
        return _REGRESSION
    if y.ndim > 1:
        return "auto takes no labels at positions"
    if x.ndim not in (2, 4):
        return f"auto takes no inputs with {x.ndim - 1} axes"
    few = f"auto takes {MIN_SAMPLES} to {MAX_SAMPLES:,} samples, and there are {len(x):,}"
    return None if MIN_SAMPLES <= len(x) <= MAX_SAMPLES else few


def _chosen(o: Any, x: Any, y: Any, together: Any, stage: Callable[[str], None]) -> Choice:
    from equitangents.fit import auto

    def progress(step: Step) -> None:
        best = "" if step.best is None else f"; best {step.best.name}, log loss {step.best.log_loss:.3f}"
        stage(f"{step.name} {step.share:.0%}; {duration(step.seconds_left)} left{best} (Ctrl-C takes the best so far)")

    own = {name: getattr(o, name) for name in ("minutes", "baselines", "fast", "standardise", "precision")}
    return auto(x, y, augmentation=o.group, together=together, progress=progress, **own)


def _fitted(o: Any, net: KernelFunction, x: Any, y: Any, classifies: bool, why: str) -> tuple[Any, dict[str, str]]:
    """(the fitted ensemble of the settings on the command line; labels and values of its tuning, if any).

    A classifier is calibrated if leave-one-out is exact, or as --calibrate says. For a regression without --net, an mlp
    with the depth, kernel and ridge of the smallest leave-one-out error, unless there are too many samples.
    """
    from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
    from equitangents.fit import MAX_SAMPLES, MIN_SAMPLES
    from equitangents.fit.assessing import RIDGES

    settings: dict[str, Any] = {name: getattr(o, name) for name in _NAMED if name != "task"}
    settings |= {"augmentation": o.group, "standardise": o.standardise}
    if o.memory_limit is not None:
        settings["memory_limit"] = int(o.memory_limit * 1e9)
    if classifies:
        classifier = InfiniteEnsembleClassifier(net, **settings, calibrate=bool(o.calibrate)).fit(x, y)
        if o.calibrate is None and classifier.solution_.solver == "eigh":
            with suppress(EquitangentsError):  # the result shows why
                classifier._calibrate()
        return classifier, {}
    if o.calibrate is not None:
        raise InvalidArgumentError("--calibrate", o.calibrate, "none, since the task is regression")
    model = InfiniteEnsemble(net, **settings)
    if why != _REGRESSION or not MIN_SAMPLES <= math.prod(x.shape[:1]) <= MAX_SAMPLES:
        return model.fit(x, y), {}
    tuned = model.tune({"depth": (1, 2, 4), "kernel": ("ntk", "nngp"), "ridge": RIDGES}, x, y)
    return tuned.best, _of_tuning(tuned)


def _show(o: Any, model: Any, choice: Choice | None, rows: dict[str, str], files: tuple[str, ...]) -> None:
    """Print the result, the accuracy first, and write the report of a classifier."""
    from equitangents.fit.page import LEFT_OUT_ACCURACY, held_out_page
    from equitangents.report import Table, text_of, write

    next_command = ""
    if hasattr(model, "classes_"):
        new = "NEW_FOLDER --out predictions.csv" if files else "NEW.npy --out predictions.npz --std"
        least = f" --min-confidence {o.min_confidence:g}" if o.min_confidence and files else ""
        next_command = f"equitangents predict {shlex.quote(str(o.out))} --data {new}{least}"
        rows = _scored(model, choice, o.min_confidence)
        if o.report and LEFT_OUT_ACCURACY in rows:
            title = f"Classifier trained on {o.data}"
            options = {"choice": choice, "min_confidence": o.min_confidence}
            page = held_out_page(model, files, title=title, next_command=next_command, **options)
            rows["Report"] = str(write(page.html(), o.out / REPORT))
        elif o.report:
            rows["Report"] = "not made"
    table = lambda caption, rows: Table(caption, [""] * len(rows[0]), rows, text=True)
    typer.echo(text_of(table("", [*(rows | _of_model(model, o.out)).items()])), nl=False)
    if choice is not None:
        shown = [choice.score_table, choice.candidate_table, *([choice.rotation_table] if choice.rotations else [])]
        shown += [table("Refused", choice.refused)] if choice.refused else []
        if pairs := choice.near_duplicates[:_PAIRS]:
            names = [[files[i] if files else str(i) for i in pair] for pair in pairs]
            shown.append(table("Near-duplicates (see --keep-together)", names))
        typer.echo(text_of(*shown), nl=False)
    if next_command:
        typer.echo(f"next: {next_command}")


def _of_tuning(tuned: Tuning[InfiniteEnsemble]) -> dict[str, str]:
    """Labels and values: the error on left-out samples, that of the mean of the others, and the choice."""
    from equitangents.report.numbers import format_number

    y, best = tuned.best._data[1], tuned.best_params
    others = (y.sum(axis=0) - y) / (len(y) - 1)
    return {
        "Leave-one-out mean squared error": f"{tuned.best_score:.4g}",
        "Error of the mean of the others": f"{((y - others) ** 2).mean():.4g}",
        "Hidden layers": str(best["depth"]),
        "Kernel, ridge": f"{best['kernel']}, {format_number(best['ridge'])}",
    }


def _scored(model: Any, choice: Choice | None, least: float | None) -> dict[str, str]:
    """Labels and values: scores of a classifier on left-out samples, or why there are none."""
    from equitangents.fit.page import facts_of
    from equitangents.fit.result import HeldOut

    unknown = "No left-out samples"
    if choice is None and model.solution_.solver != "eigh":
        return {unknown: f"{model.solution_.solver} keeps no decomposition (--solver eigh)"}
    try:
        if choice is None and model.positions_:
            return {"Accuracy on positions of left-out samples": formatted(model.leave_one_out_.accuracy, ".1%")}
        return facts_of(model, HeldOut.of(model) if choice is None else choice.score.held, choice, least)
    except EquitangentsError as error:
        return {unknown: str(error)}


def _of_model(model: Any, out: Path) -> dict[str, str]:
    """Labels and values: the saved model and its solver."""
    from equitangents.ensembles.estimator import positions_of

    solution = model.solution_
    rows = {"Model": str(out), "Samples": f"{len(model._data[0]):,}"}
    classifies = hasattr(model, "classes_")
    rows |= {"Classes": str(len(model.classes_))} if classifies else {"Outputs": str(getattr(model, "n_outputs_", 1))}
    if grid := positions_of(model):
        rows["Positions"] = "×".join(map(str, grid))
    rows["Solved as"] = model.solver_
    if solution.solver != "eigh":
        rows |= {"Solver": solution.solver, "Relative residual": f"{solution.residual:.1e}"}
        if solution.error:
            rows["Estimated error of the targets"] = f"{solution.error:.1e}"
    return rows
