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
    from equitangents.audit.potentials.report import AtomsReport
    from equitangents.audit.report.checks import Check
    from equitangents.audit.report.result import AuditReport

ABOVE = 3
"""The exit status of a model whose error is above --fail-above."""


def finish(report: AuditReport | AtomsReport, o: Any, checks: list[Check], met: bool = True) -> None:
    """Print the table, write the files, and exit with status ABOVE if a check is not met.

    `o`: the command's options, including `_REPORTS`; `met`: also print checks that are met.
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
    html=cli.option(Path, "Write the report to this file, as one HTML page.", callback=cli.writable),
    json=cli.JSON,
    markdown=cli.option(Path, "Write a summary to this file, as GitHub's Markdown.", callback=cli.writable),
    junit=cli.option(Path, "Write JUnit XML, with a test case for each finding and limit.", callback=cli.writable),
)
_share = cli.numbers("a share, 0.95 or 95%", lambda share: 0 <= share <= 1)
_positive = cli.numbers("a number above 0, 0.01 or 1%", lambda error: 0 < error < math.inf)
_scale = cli.numbers("a number, or NAME=NUMBER,…", named=True)
_tolerances = cli.numbers("NAME=NUMBER,…", single=False)
LIMITS = cli.numbers("a number, at least 0", lambda limit: 0 <= limit < math.inf, named=True)
_MODEL = cli.argument(str, "File .onnx, .pt2 (torch.export) or .pt (TorchScript), or package.module:object.")
_OF_MODEL = cli.panel(
    "Model",
    select=cli.option(str, "Audit only this output, by name (logits) or position.", metavar="OUTPUT"),
    trust=cli.flag("Load a pickled model. This runs any code in the file."),
)
_OF_DATA = cli.panel(
    "Data",
    data=cli.option(
        str, "Inputs: .npy, or .npz with x and optionally labels y.", ..., metavar="FILE", callback=cli.local_file
    ),
    inputs=cli.option(
        str,
        "How the group acts on each input: images, vectors, points, edges or none, joined by commas.",
        metavar="KIND,…",
    ),
    layout=cli.pick("Channel axis of images, if their shape leaves it open", None, "channels_last", "channels_first"),
    limit=cli.option(int, "Use at most this many inputs, drawn at random.", min=1),
    batch_size=cli.option(int, "Inputs per batch.", min=1),
    batch_axis=cli.option(int, "Batch axis of the inputs, such as 1 for recurrent networks.", 0, min=0),
)
_OF_GROUP = cli.panel(
    "Group",
    group=cli.option(
        str, "C4, D4, S5 (or any n), SO2, SO3, O3, translations, …", ..., metavar="NAME", **cli.a_group(finite=False)
    ),
    outputs=cli.option(
        str,
        "How the group acts on each output: invariant (the default), vectors, images, masks, boxes (xyxy), cxcywh, "
        "keypoints, unordered (sets of boxes), unordered:distance:vectors, 4x0e+2x1o (irreps), voigt, voigt:strain, "
        "points, pairs, edges, sequences, states, …; labels:3,0,1,2 for permuted classes (one list per generator, "
        "separated by /); or find, to fit it. KIND@1 has its batch on axis 1.",
        metavar="[NAME=]KIND,…",
    ),
    elements=cli.option(int, "Number of group elements to test.", min=1),
)
_MEASURED = cli.panel(
    "What to measure",
    on_data_only=cli.flag("Audit on --data only, without noise and shuffled inputs."),
    seed=cli.option(int, "Random seed.", 0, min=0),
    effort=cli.pick("Measure everything, or only the error and its noise floor", "full", "full", "quick"),
)
_OF_VERDICT = cli.panel(
    "Verdict",
    fail_above=cli.number(
        "Largest error allowed, on the data and off it, or exit with status 3: 5%, or forces=5%,invariant=1%.",
        LIMITS,
        "LIMIT",
    ),
    min_agreement=cli.number(
        "Smallest share of predicted classes that must stay, or exit with status 3: 0.95 or 95%.", _share
    ),
    tolerance=cli.number("Mean error allowed for every group element: 0.01 or 1%.", _positive),
    relative_to=cli.pick(
        "What an error is relative to (spread: standard deviation over inputs)", "larger", "norm", "spread", "larger"
    ),
    output_scale=cli.number("Output size that counts as 100 %: 0.1, or forces=0.1,energy=1.", _scale, "SIZE"),
)
_SAME = ("elements", "batch_size", "effort", "layout", "relative_to", "seed", "tolerance", "output_scale")


@cli.command(model=_MODEL, **_OF_MODEL, **_OF_DATA, **_OF_GROUP, **_MEASURED, **_OF_VERDICT, **_REPORTS)
def audit(o: Any) -> None:
    """Measure how far a model is from being equivariant, and where it breaks.

    equitangents audit net.onnx --data images.npz --group C4 --html audit.html

    equitangents audit mine:model --data clouds.npz --group SO3 --inputs vectors

    Errors are relative, and printed with the noise floor due to interpolation and rounding.
    """
    from equitangents.foreign_files import check_model, load_data

    check_model(o.model, o.trust)
    with cli.stages() as stage, cli.announced("equitangents.audit.layouts"):
        stage(f"reading {o.data}")
        x, y = load_data(str(o.data))
        kinds = _input_kinds(o.inputs, x)
        stage("importing JAX")
        from equitangents.audit.adapters import as_model
        from equitangents.audit.adapters.choose import load_model
        from equitangents.audit.contract.trees import along_axis, sampled
        from equitangents.audit.report import checks
        from equitangents.audit.run import audit as measure

        x, y = (x, y) if o.limit is None else sampled(along_axis(x, o.batch_axis), y, o.limit, o.seed)
        expected = output_kinds(o.outputs)
        stage(f"loading {o.model}")
        f = as_model(load_model(o.model, o.trust))
        f.foreign = True  # an error in it is shown in one line, with its place, of functions too
        stage(f"evaluating {f.name}")
        settings: dict[str, Any] = {name: getattr(o, name) for name in _SAME} | {"inputs": kinds}
        settings["select"] = int(o.select) if o.select is not None and o.select.isdecimal() else o.select
        settings["off_data"] = not o.on_data_only and o.effort != "quick"
        report = measure(f, o.group, along_axis(x, o.batch_axis), expected, y=y, progress=True, **settings)
    demanded: list[Check] = checks.each_below(report, o.fail_above) if isinstance(o.fail_above, dict) else []
    demanded += [checks.below(report, o.fail_above)] if isinstance(o.fail_above, float) else []
    demanded += [checks.agrees(report, o.min_agreement)] if o.min_agreement is not None else []
    finish(report, o, demanded)


def _input_kinds(text: str | None, x: object) -> Any:
    """--inputs: "vectors,none" as a tree of kinds in the structure of x."""
    if text is None:
        return None
    parts = [None if part in ("none", "invariant") else part for part in text.replace(" ", "").split(",")]
    if isinstance(x, dict):
        if len(parts) != len(x):
            raise InvalidArgumentError("--inputs", text, "a kind for each of the inputs", ", ".join(x))
        return dict(zip(x, parts, strict=True))
    return tuple(parts)


def output_kinds(text: str | None) -> Any:
    """ "vectors,none", "labels:3,0,1,2/1,0,3,2", "boxes=unordered,scores=none" as `output_action`."""
    if text is None:
        return None
    parts = re.split(r",(?!\d+(?:[,/@]|$))", text.replace(" ", ""))  # those of labels stay together
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
        if not axis.isdecimal():
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
    structures=cli.argument(str, "File of structures that ASE reads: .xyz, .cif, .traj, …", callback=cli.local_file),
    **cli.panel(
        "Potential",
        calculator=cli.option(str, "An ASE calculator, its class or a function (package.module:object).", ...),
    ),
    **cli.panel(
        "What to measure",
        tests=cli.option(
            str, "Run only these tests: rotation, permutation, conservation, dynamics, smoothness, …", metavar="TEST,…"
        ),
        elements=cli.option(int, "Random transforms of every structure.", 8, min=1),
        limit=cli.option(int, "Use at most this many structures, drawn at random.", min=1),
        time_step=cli.option(float, "Time step of the dynamics test, in femtoseconds, such as 0.25."),
        seed=cli.option(int, "Random seed.", 0, min=0),
    ),
    **cli.panel(
        "Verdict",
        tolerances=cli.number("Errors allowed: forces=1,energy=0.1 (meV/Å, meV/atom).", _tolerances, "NAME=X,…"),
        fail_above=cli.number(
            "Largest relative error allowed, or exit with status 3: 5%, or forces=5%,energy=1%.", LIMITS, "LIMIT"
        ),
    ),
    **_REPORTS,
)
def audit_potential(o: Any) -> None:
    """Test an interatomic potential: symmetries, forces as a gradient, conserved energy, smoothness.

    equitangents audit-potential water.xyz --calculator mine:potential

    equitangents audit-potential water.xyz --calculator mine:potential --limit 20
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
