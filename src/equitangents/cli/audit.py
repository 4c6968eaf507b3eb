"""`equitangents audit`: how equivariant a model in a file is, with an exit status for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equitangents.cli.announcements import announced, stages
from equitangents.cli.audit_atoms import ABOVE, audit_atoms, irreps_of
from equitangents.cli.audit_kinds import output_kinds, transforms
from equitangents.cli.audit_settings import (
    agreement_of,
    check_choice,
    check_counts,
    check_file,
    check_outputs,
    check_program,
    kinds_of,
    limited,
    limits_of,
    named,
    scales,
    tolerance_of,
)

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
        str | None,
        typer.Option(help="Where images keep channels, if shapes do not tell: channels_last or channels_first."),
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
            help=f"Exit with status {ABOVE} if the mean relative error of the first sentence is above this, 0.05 or "
            "5%, or of single outputs or kinds: forces=0.05,invariant=1%."
        ),
    ] = None,
    min_agreement: Annotated[
        str | None,
        typer.Option(help=f"Exit with status {ABOVE} if fewer predicted classes stay the same: 0.95 or 95%."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help=f"An earlier --json: exit with status {ABOVE} if errors grew, by a paired test of the inputs."
        ),
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option(help="The mean error that is acceptable under every element: 0.01 or 1%.")
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
    from equitangents.array_files import load_data
    from equitangents.groups.names import parse_group_name
    from equitangents.model_files import check_model

    limits, agreement, tolerated = limits_of(fail_above), agreement_of(min_agreement), tolerance_of(tolerance)
    scale = scales(output_scale)
    check_choice("--layout", layout, ("channels_last", "channels_first"))
    check_choice("--relative-to", relative_to, ("norm", "spread", "larger"))
    check_choice("--effort", effort, ("full", "quick"))
    check_counts({"--elements": elements, "--limit": limit, "--batch-size": batch_size})
    check_outputs({"--html": html, "--json": json, "--markdown": markdown, "--junit": junit, "--badge": badge})
    check_file("baseline", baseline)
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
        audit_atoms(atoms, calculator, tests, tolerances=named(tolerances), features=irreps_of(features),
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
    for name, value in (("MODEL", model or command), ("--data", data), ("--group", group or transform)):
        if value is None:
            raise typer.BadParameter("is missing; or give --atoms and --calculator", param_hint=name)
    assert data is not None
    check_file("data", data)
    if model is None:
        check_program(command)
    else:
        check_model(model, trust)
    if group is not None:
        parse_group_name("group", group)
    with stages() as stage, announced("equitangents.audit.layouts", err=True):
        stage(f"reading {data}")
        x, y = load_data(data, trust)
        kinds = kinds_of(inputs, x)
        x, y = limited(x, y, limit, seed, batch_axis)
        stage("importing JAX")
        from equitangents.audit.adapters import as_model
        from equitangents.audit.adapters.files import load_function, load_model
        from equitangents.audit.contract.trees import along_axis
        from equitangents.audit.report.checks import read_baseline
        from equitangents.audit.run import audit as run

        expected = output_kinds(outputs)
        changes = transforms(transform, load_function)
        if baseline is not None:
            read_baseline(baseline)
        stage(f"loading {model or command}")
        f = as_model(_command(command, timeout, answers) if model is None else load_model(model, trust))
        f.foreign = True  # of a function, too, an error is told in one line, with where it came from
        stage(f"evaluating {f.name}")
        report = run(
            f,
            group or changes,
            along_axis(x, batch_axis),
            expected,
            inputs=kinds,
            y=y,
            layout=layout,  # type: ignore[arg-type]
            elements=elements,
            batch_size=batch_size,
            off_data=not on_data_only and effort != "quick",
            transforms=None if group is None else changes,
            seed=seed,
            select=int(select) if select is not None and select.isdigit() else select,
            progress=True,
            tolerance=tolerated,
            relative_to=relative_to,  # type: ignore[arg-type]
            output_scale=scale,
            effort=effort,  # type: ignore[arg-type]
        )
    typer.echo(report.summary())
    files = ((html, report.to_html), (json, report.to_json), (markdown, report.to_markdown), (badge, report.to_badge))
    for path, write in files:
        if path is not None:
            write(path)
            typer.echo(f"written: {path}")
    checks = _checks(report, limits, agreement, baseline)
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
