"""`equitangents audit`: how equivariant a model in a file is, with an exit status for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equitangents.cli.audit_atoms import ABOVE, audit_atoms, irreps_of
from equitangents.cli.audit_kinds import output_kinds, transforms

if TYPE_CHECKING:
    from equitangents.audit.report.checks import Check
    from equitangents.audit.report.result import AuditReport


def audit(
    model: Annotated[
        str | None,
        typer.Argument(help="file.onnx, file.pt2 (torch.export), file.pt (TorchScript), or package.module:object."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Inputs: .npy, or .npz with x and, if there are labels, y.")] = None,
    group: Annotated[
        str | None,
        typer.Option(help="C4, D4 (any number), SO2, SO3, O3, S_n, S5 (any number), translations, octahedral, …"),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(help="What each input is to the group, with commas: images, vectors, points, edges, none."),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            help="What each output is to the group: invariant (the default), vectors, images, masks, boxes (xyxy), "
            "cxcywh, keypoints, unordered (sets of boxes), unordered:distance:vectors, 4x0e+2x1o (irreps), voigt, "
            "voigt:strain, points, pairs, edges, sequences, states, …, labels:3,0,1,2 for classes that change places "
            "(generators apart by /), or find. Several outputs: KIND,KIND or NAME=KIND,…; KIND@1: its batch is axis 1."
        ),
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="Where images keep channels: channels_last or channels_first.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a summary that GitHub renders.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit's XML, one test case an output and limit.")] = None,
    badge: Annotated[
        Path | None, typer.Option(help="Write a badge: SVG, or with .json what shields.io's endpoint badges read.")
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            help=f"Exit with status {ABOVE} if the mean relative error of the first sentence is above this, or of "
            "single outputs or kinds: forces=0.05,invariant=0.01."
        ),
    ] = None,
    min_agreement: Annotated[
        float | None,
        typer.Option(help=f"Exit with status {ABOVE} if fewer predicted classes stay the same: 0.95 for 95 %."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help=f"An earlier --json: exit with status {ABOVE} if errors grew, by a paired test of the inputs."
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="The mean error that is acceptable under every element: 0.01 for 1 %.")
    ] = None,
    relative_to: Annotated[
        str, typer.Option(help="What errors are relative to: norm, spread (between inputs), or larger (error of both).")
    ] = "larger",
    output_scale: Annotated[
        str | None,
        typer.Option(help="The size of outputs that counts as 100 %, in their own unit: 0.1, or forces=0.1,energy=1."),
    ] = None,
    elements: Annotated[int | None, typer.Option(help="How many elements of the group to try.")] = None,
    limit: Annotated[int | None, typer.Option(help="Use this many inputs, drawn at random.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Inputs at a time.")] = None,
    on_data_only: Annotated[bool, typer.Option("--on-data-only", help="No noise and no shuffled inputs.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random in the audit.")] = 0,
    select: Annotated[
        str | None, typer.Option(help="Audit this one of several outputs, by name (logits) or position.")
    ] = None,
    atoms: Annotated[
        str | None, typer.Option(help="Structures that ASE reads (.xyz, .cif, .traj, …), in place of MODEL and --data.")
    ] = None,
    calculator: Annotated[
        str | None,
        typer.Option(help="With --atoms: package.module:object, an ASE calculator, its class or a function."),
    ] = None,
    tests: Annotated[
        str | None,
        typer.Option(help="With --atoms: some tests, with commas: rotation, permutation, conservation, smoothness, …"),
    ] = None,
    transform: Annotated[
        list[str] | None,
        typer.Option(
            help="A change that forms no group, with its strengths: brightness:0.5..1.5, gain:0.5,2, speed:0.8..1.2:5 "
            "(5 of them), contrast, offset, shift, scale, crop, or package.module:function:0..1. May be repeated; "
            "without --group these alone are audited."
        ),
    ] = None,
    batch_axis: Annotated[
        int, typer.Option(help="The axis of the inputs' batch, such as 1 for sequences of recurrent networks.")
    ] = 0,
    tolerances: Annotated[
        str | None,
        typer.Option(help="With --atoms: errors that count as small: forces=1,energy=0.1 (meV/Å, meV/atom)."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="With --atoms: further results, one row an atom, and their irreps: node_feats=8x0e+4x1o."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help="In place of MODEL: a program in any language that reads a batch as npy on its input and writes the "
            "outputs as npy."
        ),
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="With --command: seconds that one batch may take (60).")] = None,
    answers: Annotated[
        str | None,
        typer.Option(help="With --command: names of its outputs, if it writes several arrays: energy,forces."),
    ] = None,
    effort: Annotated[
        str, typer.Option(help="full, or quick: the error and its floor alone, on few evaluations.")
    ] = "full",
    trust: Annotated[
        bool, typer.Option("--trust", help="Load pickles, too. They run whatever code their author put in.")
    ] = False,
) -> None:
    """Measure how far a model is from being equivariant, and where it breaks.

    The error is relative, and printed beside the floor that interpolation and rounding explain.
    """
    from equitangents.audit.adapters import as_model
    from equitangents.audit.adapters.files import load_data, load_function, load_model
    from equitangents.audit.contract.trees import along_axis
    from equitangents.audit.report.checks import read_baseline
    from equitangents.audit.run import audit as run
    from equitangents.errors import InvalidArgumentError

    limits = _scales(fail_above, "--fail-above")
    for limit_given in limits.values() if isinstance(limits, dict) else [] if limits is None else [limits]:
        if not limit_given >= 0:
            raise typer.BadParameter("expected a number, at least 0", param_hint="--fail-above")
    if min_agreement is not None and not 0 <= min_agreement <= 1:
        raise typer.BadParameter("expected a number from 0 to 1", param_hint="--min-agreement")
    for path in (html, json, markdown, junit, badge):
        if path is not None and not path.resolve().parent.is_dir():
            raise InvalidArgumentError(f"path is {str(path)!r}, whose folder does not exist")
    if atoms is not None or calculator is not None:
        if model is not None or data is not None or group is not None:
            raise typer.BadParameter("goes without MODEL, --data and --group", param_hint="--atoms")
        for option, given in (
            ("--min-agreement", min_agreement),
            ("--command", command),
            ("--effort quick", None if effort == "full" else effort),
        ):
            if given is not None:
                raise typer.BadParameter(f"goes without {option}", param_hint="--atoms")
        audit_atoms(atoms, calculator, tests, tolerances=_named(tolerances), features=irreps_of(features),
                    elements=elements, limit=limit, seed=seed, fail_above=limits, html=html, json=json,
                    markdown=markdown, junit=junit, badge=badge, baseline=baseline)  # fmt: skip
        return
    if command is not None and model is not None:
        raise typer.BadParameter("goes without MODEL", param_hint="--command")
    for option, of_atoms in (("--tests", tests), ("--tolerances", tolerances), ("--features", features)):
        if of_atoms is not None:
            raise typer.BadParameter("goes with --atoms", param_hint=option)
    for option, told in (("--timeout", timeout), ("--answers", answers)):
        if command is None and told is not None:
            raise typer.BadParameter("goes with --command", param_hint=option)
    changes = transforms(transform, load_function)
    for name, value in (("MODEL", model or command), ("--data", data), ("--group", group or changes)):
        if value is None:
            raise typer.BadParameter("is missing; or give --atoms and --calculator", param_hint=name)
    assert data is not None
    if baseline is not None:
        read_baseline(baseline)
    x, y = load_data(data, trust)
    f = as_model(_command(command, timeout, answers) if model is None else load_model(model, trust))
    f.foreign = True  # of a function, too, an error is told in one line, with where it came from
    x, y = _limited(x, y, limit, seed, batch_axis)
    report = run(
        f,
        group or changes,
        along_axis(x, batch_axis),
        output_kinds(outputs),
        inputs=_kinds(inputs, x),
        y=y,
        layout=layout,  # type: ignore[arg-type]
        elements=elements,
        batch_size=batch_size,
        off_data=not on_data_only and effort != "quick",
        transforms=None if group is None else changes,
        seed=seed,
        select=int(select) if select is not None and select.isdigit() else select,
        progress=True,
        tolerance=tolerance,
        relative_to=relative_to,  # type: ignore[arg-type]
        output_scale=_scales(output_scale),
        effort=effort,  # type: ignore[arg-type]
    )
    typer.echo(report.summary())
    files = ((html, report.to_html), (json, report.to_json), (markdown, report.to_markdown), (badge, report.to_badge))
    for path, write in files:
        if path is not None:
            write(path)
            typer.echo(f"written: {path}")
    checks = _checks(report, limits, min_agreement, baseline)
    if junit is not None:
        report.to_junit(junit, checks)
        typer.echo(f"written: {junit}")
    if report.partial:
        raise typer.Exit(130)
    _fail(checks)


def _command(command: str | None, timeout: float | None, answers: str | None) -> Any:
    """The program of --command."""
    from equitangents.audit.adapters.commands import TIMEOUT, Command

    names = None if answers is None else [name.strip() for name in answers.split(",")]
    return Command(command or "", timeout=TIMEOUT if timeout is None else timeout, answers=names)


def _checks(
    report: AuditReport, limits: float | dict[str, float] | None, min_agreement: float | None, baseline: Path | None
) -> list[Check]:
    """Everything that was demanded of the report."""
    from equitangents.audit.report.checks import agrees, below, each_below, no_worse

    found = each_below(report, limits) if isinstance(limits, dict) else []
    found += [below(report, limits)] if isinstance(limits, float) else []
    found += [agrees(report, min_agreement)] if min_agreement is not None else []
    return found + ([no_worse(report, baseline)] if baseline is not None else [])


def _fail(checks: list[Check]) -> None:
    """Say on stderr what fails, and what could not be judged; end with status ABOVE if anything fails. What is met is
    said on stdout.
    """
    for check in checks:
        if check.undecided:
            typer.echo(f"undecided: {check.said}", err=True)
        elif not check.passed:
            typer.echo(f"above: {check.said}" if "error" in check.said else f"below: {check.said}", err=True)
        elif "--output-scale" in check.said:
            typer.echo(f"--fail-above: {check.said}", err=True)
        else:
            typer.echo(f"met: {check.name}" + f"; {check.said}" * bool(check.said))
    if not all(check.passed for check in checks):
        raise typer.Exit(ABOVE)


def _scales(text: str | None, option: str = "--output-scale") -> float | dict[str, float] | None:
    """ "0.1" as a number, "forces=0.1,energy=1" as numbers by name."""
    if text is None:
        return None
    parts = [part.rpartition("=") for part in text.replace(" ", "").split(",")]
    try:
        numbers = [float(number) for _, _, number in parts]
    except ValueError:
        raise typer.BadParameter("expected a number, or NAME=NUMBER,…", param_hint=option) from None
    if len(parts) == 1 and not parts[0][1]:
        return numbers[0]
    if not all(name for name, _, _ in parts):
        raise typer.BadParameter("expected one number, or NAME=NUMBER,… for each", param_hint=option)
    return {name: number for (name, _, _), number in zip(parts, numbers, strict=True)}


def _named(text: str | None) -> dict[str, float] | None:
    """ "forces=1,energy=0.1" as numbers by name."""
    numbers = _scales(text, "--tolerances")
    if isinstance(numbers, float):
        raise typer.BadParameter("expected NAME=NUMBER,…", param_hint="--tolerances")
    return numbers


def _kinds(text: str | None, x: object) -> Any:
    """ "vectors,none" as the tree of kinds that belongs to x."""
    if text is None:
        return None
    parts = [None if part in ("none", "invariant") else part for part in text.replace(" ", "").split(",")]
    if isinstance(x, dict):
        if len(parts) != len(x):
            raise typer.BadParameter(f"{len(parts)} kinds for the inputs {', '.join(x)}", param_hint="--inputs")
        return dict(zip(x, parts, strict=True))
    return parts[0] if len(parts) == 1 else tuple(parts)


def _limited(x: Any, y: Any, limit: int | None, seed: int, axis: int = 0) -> tuple[Any, Any]:
    """At most `limit` rows of x, whose batch is along `axis`, and of y."""
    if limit is None:
        return x, y
    import numpy as np

    arrays = x if isinstance(x, dict) else {"x": x}
    n = np.shape(next(iter(arrays.values())))[axis]
    if limit < 1:
        raise typer.BadParameter("expected at least 1", param_hint="--limit")
    rows = np.sort(np.random.default_rng(seed).choice(n, min(limit, n), replace=False))
    chosen = {name: np.take(np.asarray(a), rows, axis=axis) for name, a in arrays.items()}
    return (chosen if isinstance(x, dict) else chosen["x"]), (None if y is None else np.asarray(y)[rows])
