"""`equitangents audit` and `audit-potential`: a table, files, and an exit status for continuous integration."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli import options as cli
from equitangents.errors import InvalidArgumentError, require

if TYPE_CHECKING:
    from equitangents._types import ArrayLike
    from equitangents.audit.potentials.report import AtomsReport
    from equitangents.audit.report.checks import Check
    from equitangents.audit.report.result import AuditReport

ABOVE = 3
"""The exit status of a model whose error is above --fail-above."""


def finish(report: AuditReport | AtomsReport, o: Any, checks: list[Check], met: bool = True) -> None:
    """Print the table, write the files, and end with status ABOVE if something that was demanded is not met.

    `o`: the command's options, `_REPORTS` among them; `met`: also say what is met.
    """
    typer.echo(report.summary())
    for form in _REPORTS:
        if (path := getattr(o, form)) is not None:
            getattr(report, f"to_{form}")(path, **({"checks": checks} if form == "junit" else {}))
            typer.echo(f"written: {path}")
    for check in checks:
        state = "met" if check.passed else "undecided" if check.undecided else "not met"
        if met or not check.passed:
            typer.echo(f"{state}: {check.name}: {check.value}", err=not check.passed)
    if not all(check.passed for check in checks):
        raise typer.Exit(ABOVE)


_REPORTS = cli.panel(
    "Report",
    html=cli.option(Path, "Write the report as one HTML page.", callback=cli.writable),
    json=cli.option(Path, "Write the report as JSON.", callback=cli.writable),
    markdown=cli.option(Path, "Write a summary that GitHub renders.", callback=cli.writable),
    junit=cli.option(Path, "Write JUnit's XML, one test case a finding and limit.", callback=cli.writable),
)
_share = cli.numbers("a share, 0.95 or 95%", lambda share: 0 <= share <= 1)
_positive = cli.numbers("a number above 0, 0.01 or 1%", lambda error: 0 < error < math.inf)
_scale = cli.numbers("a number, or NAME=NUMBER,…", named=True)
_tolerances = cli.numbers("NAME=NUMBER,…", single=False)
LIMITS = cli.numbers("a number, at least 0", lambda limit: 0 <= limit < math.inf, named=True)
_OF_MODEL = cli.panel(
    "Model",
    model=cli.argument(str, "file.onnx, .pt2 (torch.export), .pt (TorchScript) or package.module:object."),
    select=cli.option(str, "Audit this one of several outputs, by name (logits) or position."),
    trust=cli.flag("Load a pickled model, too. It runs whatever code its author put in."),
)
_OF_DATA = cli.panel(
    "Data",
    data=cli.option(str, "Inputs: .npy, or .npz with x and, if there are labels, y.", ..., callback=cli.local_file),
    inputs=cli.option(str, "What each input is to the group, with commas: images, vectors, points, edges, none."),
    layout=cli.pick("Where images keep channels, if shapes do not tell", None, "channels_last", "channels_first"),
    limit=cli.option(int, "Use this many inputs, drawn at random.", min=1),
    batch_size=cli.option(int, "Inputs at a time.", min=1),
    batch_axis=cli.option(int, "The axis of the inputs' batch, such as 1 for sequences of recurrent networks.", 0),
)
_OF_GROUP = cli.panel(
    "Group",
    group=cli.option(str, "C4, D4, S5 (any number), SO2, SO3, O3, translations, …", ..., **cli.a_group(finite=False)),
    outputs=cli.option(
        str,
        "What each output is to the group: invariant (the default), vectors, images, masks, boxes (xyxy), cxcywh, "
        "keypoints, unordered (sets of boxes), unordered:distance:vectors, 4x0e+2x1o (irreps), voigt, voigt:strain, "
        "points, pairs, edges, sequences, states, …, labels:3,0,1,2 for classes that change places (generators apart "
        "by /), or find. Several outputs: KIND,KIND or NAME=KIND,…; KIND@1: its batch is axis 1.",
    ),
    elements=cli.option(int, "How many elements of the group to try.", min=1),
)
_MEASURED = cli.panel(
    "What to measure",
    on_data_only=cli.flag("No noise and no shuffled inputs."),
    seed=cli.option(int, "Seed of everything random in the audit.", 0),
    effort=cli.pick("quick measures the error and its floor alone, on few evaluations", "full", "full", "quick"),
)
_OF_VERDICT = cli.panel(
    "Verdict",
    fail_above=cli.option(
        str,
        "Exit with status 3 unless errors, on data and off, are at most this: 5%, or forces=5%,invariant=1%.",
        callback=LIMITS,
    ),
    min_agreement=cli.option(
        str, "Exit with status 3 if fewer predicted classes stay the same: 0.95 or 95%.", callback=_share
    ),
    tolerance=cli.option(str, "The mean error that every element may have: 0.01 or 1%.", callback=_positive),
    relative_to=cli.pick("Errors relative to (spread: between inputs)", "larger", "norm", "spread", "larger"),
    output_scale=cli.option(str, "Size of outputs that is 100 %: 0.1, or forces=0.1,energy=1.", callback=_scale),
)
_SAME = ("elements", "batch_size", "effort", "layout", "relative_to", "seed", "tolerance", "output_scale")


@cli.command(**_OF_MODEL, **_OF_DATA, **_OF_GROUP, **_MEASURED, **_OF_VERDICT, **_REPORTS)
def audit(o: Any) -> None:
    """Measure how far a model is from being equivariant, and where it breaks.

    equitangents audit net.onnx --data images.npz --group C4 --html audit.html

    equitangents audit mine:model --data clouds.npz --group SO3 --inputs vectors --outputs vectors --fail-above 5%

    The error is relative, and printed with the noise floor that interpolation and rounding explain.
    """
    from equitangents.foreign_files import check_model, load_data

    check_model(o.model, o.trust)
    with cli.stages() as stage, cli.announced("equitangents.audit.layouts"):
        stage(f"reading {o.data}")
        x, y = load_data(str(o.data))
        kinds = _input_kinds(o.inputs, x)
        x, y = _limited(x, y, o.limit, o.seed, o.batch_axis)
        stage("importing JAX")
        from equitangents.audit.adapters import as_model
        from equitangents.audit.adapters.choose import load_model
        from equitangents.audit.contract.trees import along_axis
        from equitangents.audit.report import checks
        from equitangents.audit.run import audit as measure

        expected = output_kinds(o.outputs)
        stage(f"loading {o.model}")
        f = as_model(load_model(o.model, o.trust))
        f.foreign = True  # of a function, too, an error is told in one line, with where it came from
        stage(f"evaluating {f.name}")
        settings: dict[str, Any] = {name: getattr(o, name) for name in _SAME} | {"inputs": kinds}
        settings["select"] = int(o.select) if o.select is not None and o.select.isdigit() else o.select
        settings["off_data"] = not o.on_data_only and o.effort != "quick"
        report = measure(f, o.group, along_axis(x, o.batch_axis), expected, y=y, progress=True, **settings)
    demanded: list[Check] = checks.each_below(report, o.fail_above) if isinstance(o.fail_above, dict) else []
    demanded += [checks.below(report, o.fail_above)] if isinstance(o.fail_above, float) else []
    demanded += [checks.agrees(report, o.min_agreement)] if o.min_agreement is not None else []
    finish(report, o, demanded)


def _input_kinds(text: str | None, x: object) -> Any:
    """--inputs: "vectors,none" as the tree of kinds that belongs to x."""
    if text is None:
        return None
    parts = [None if part in ("none", "invariant") else part for part in text.replace(" ", "").split(",")]
    if isinstance(x, dict):
        if len(parts) != len(x):
            raise InvalidArgumentError("--inputs", text, "a kind for each of the inputs", ", ".join(x))
        return dict(zip(x, parts, strict=True))
    return parts[0] if len(parts) == 1 else tuple(parts)


def _limited(x: ArrayLike, y: ArrayLike, limit: int | None, seed: int, axis: int) -> tuple[Any, Any]:
    """--limit: at most so many rows of x, whose batch is along `axis`, and of y."""
    if limit is None:
        return x, y
    import numpy as np

    n = np.shape(next(iter(x.values())) if isinstance(x, dict) else x)[axis]
    rows = np.sort(np.random.default_rng(seed).choice(n, min(limit, n), replace=False))
    some = lambda a: np.take(np.asarray(a), rows, axis=axis)
    chosen = {name: some(a) for name, a in x.items()} if isinstance(x, dict) else some(x)
    return chosen, None if y is None else np.asarray(y)[rows]


def output_kinds(text: str | None) -> Any:
    """ "vectors,none", "labels:3,0,1,2/1,0,3,2", "boxes=unordered,scores=none" as what `output_action` takes."""
    if text is None:
        return None
    parts = re.split(r",(?!\d+(?:[,/]|$))", text.replace(" ", ""))  # those of labels stay together
    named = [part.rpartition("=")[::2] for part in parts]
    if all(name for name, _ in named):
        return {name: _output_kind(kind) for name, kind in named}
    if any(name for name, _ in named):
        raise InvalidArgumentError("--outputs", text, "a kind for each output, all with NAME= or none")
    kinds = [_output_kind(kind) for _, kind in named]
    return kinds[0] if len(kinds) == 1 else tuple(kinds)


def _output_kind(text: str) -> Any:
    """One output's kind; "@1" after it: its batch is along axis 1."""
    from equitangents.audit.contract import kinds, trees, unordered

    kind, at, axis = text.partition("@")
    if at:
        if not axis.isdigit():
            raise InvalidArgumentError("--outputs", text, "KIND@AXIS, such as vectors@1")
        return trees.Batch(_output_kind(kind), int(axis))
    if kind.startswith("unordered"):
        return unordered.parse(kind)
    if not kind.startswith("labels:"):
        return None if kind == "none" else kind
    try:
        rows = [[int(c) for c in row.split(",")] for row in kind.removeprefix("labels:").split("/")]
    except ValueError:
        raise InvalidArgumentError("--outputs", text, "labels:3,0,1,2, where each class goes") from None
    return kinds.Labels(rows)


@cli.command(
    **cli.panel(
        "Potential",
        structures=cli.argument(str, "Structures that ASE reads: .xyz, .cif, .traj, …", callback=cli.local_file),
        calculator=cli.option(str, "package.module:object, an ASE calculator, its class or a function.", ...),
    ),
    **cli.panel(
        "What to measure",
        tests=cli.option(str, "Some tests: rotation,permutation,conservation,dynamics,smoothness,…"),
        elements=cli.option(int, "Random moves of every structure.", 8, min=1),
        limit=cli.option(int, "Use this many structures, drawn at random.", min=1),
        time_step=cli.option(float, "Femtoseconds of a step of the short run: 0.25."),
        seed=cli.option(int, "Seed of everything random.", 0),
    ),
    **cli.panel(
        "Verdict",
        tolerances=cli.option(
            str, "Errors that count as small: forces=1,energy=0.1 (meV/Å, meV/atom).", callback=_tolerances
        ),
        fail_above=cli.option(
            str, "Exit with status 3 unless relative errors are at most this: 5%, or forces=5%,…", callback=LIMITS
        ),
    ),
    **_REPORTS,
)
def audit_potential(o: Any) -> None:
    """Test an interatomic potential: symmetries, forces as a gradient, conserved energy, smoothness.

    equitangents audit-potential water.xyz --calculator mine:potential --html potential.html

    equitangents audit-potential crystals.xyz --calculator mine:potential --tests rotation,dynamics --time-step 0.25
    """
    from equitangents.foreign_files import check_name

    check_name(o.calculator, "calculator")
    with cli.stages() as stage:
        stage("importing JAX and ASE")
        from equitangents.audit.adapters.choose import imported
        from equitangents.audit.potentials import report as reports
        from equitangents.audit.potentials.run import atoms
        from equitangents.audit.potentials.structures import read_structures

        require("ase", "atoms", "the audit of potentials")
        stage(f"reading {o.structures}")
        structures = read_structures(o.structures, o.limit, o.seed)
        stage(f"loading {o.calculator}")
        potential = imported(o.calculator, "calculator")
        stage(f"evaluating {o.calculator}")
        tests = None if o.tests is None else [test.strip() for test in o.tests.split(",")]
        settings = {name: getattr(o, name) for name in ("elements", "tolerances", "time_step", "seed")}
        report = atoms(potential, structures, tests, progress=True, **settings)
    finish(report, o, [] if o.fail_above is None else reports.below(report, o.fail_above), met=False)
