"""`equitangents audit`: how equivariant a model in a file is.

It ends with the table, the files that were asked for, and an exit status for continuous integration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equitangents.cli.audit_words import (
    check_counts,
    check_file,
    check_together,
    kinds_of,
    limited,
    limits_of,
    output_kinds,
    scales,
    share_of,
    transforms,
)
from equitangents.cli.common import announced, stages
from equitangents.cli.completion import GROUPS, one_of

if TYPE_CHECKING:
    from equitangents.audit.potentials.report import AtomsReport
    from equitangents.audit.report.checks import Check
    from equitangents.audit.report.result import AuditReport


_MODEL, _DATA, _GROUP = "Model", "Data", "Group"
_MEASURE, _VERDICT, _REPORT = "What to measure", "Verdict", "Report"
ABOVE = 3
"""The exit status of a model whose error is above --fail-above."""
PARTIAL = "interrupted; the report is of what was measured until then: the same command measures all"


Files = Mapping[str, Path | None]
"""Where each form of the report is to be written."""
Html = Annotated[Path | None, typer.Option(rich_help_panel=_REPORT, help="Write the report as one HTML page.")]
Json = Annotated[Path | None, typer.Option(rich_help_panel=_REPORT, help="Write the report as JSON.")]
Markdown = Annotated[Path | None, typer.Option(rich_help_panel=_REPORT, help="Write a summary that GitHub renders.")]
Junit = Annotated[
    Path | None, typer.Option(rich_help_panel=_REPORT, help="Write JUnit's XML, one test case a finding and limit.")
]
Seed = Annotated[int, typer.Option(rich_help_panel=_MEASURE, help="Seed of everything random in the audit.")]


def check_files(files: Files) -> None:
    """Raise unless every file can lie where it is to be written; folders are made with it."""
    for option, path in files.items():
        above = () if path is None else path.resolve().parents
        if above and not next(folder for folder in above if folder.exists()).is_dir():
            raise typer.BadParameter(f"{str(path)!r}, which cannot be written", param_hint=f"--{option}")


def finish(report: AuditReport | AtomsReport, files: Files, checks: list[Check], met: bool = True) -> None:
    """Print the table, write the files, and end with status ABOVE if something that was demanded is not met.

    `met`: also say what is met.
    """
    typer.echo(report.summary())
    writers = {"html": report.to_html, "json": report.to_json, "markdown": report.to_markdown,
               "junit": partial(report.to_junit, checks=checks)}  # fmt: skip
    for form, path in files.items():
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            writers[form](path)
            typer.echo(f"written: {path}")
    if report.partial:
        raise KeyboardInterrupt(PARTIAL)
    for check in checks:
        state = "met" if check.passed else "undecided" if check.undecided else "not met"
        if met or not check.passed:
            typer.echo(f"{state}: {check.name}: {check.value}", err=not check.passed)
    if not all(check.passed for check in checks):
        raise typer.Exit(ABOVE)


def audit(
    model: Annotated[
        str | None,
        typer.Argument(
            rich_help_panel=_MODEL,
            help="file.onnx, .pt2 (torch.export), .pt (TorchScript), package.module:object; .keras with --trust.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(rich_help_panel=_DATA, help="Inputs: .npy, or .npz with x and, if there are labels, y."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_GROUP,
            help="C4, D4 (any number), SO2, SO3, O3, S_n, S5 (any number), translations, octahedral, …",
            autocompletion=GROUPS,
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_DATA,
            help="What each input is to the group, with commas: images, vectors, points, edges, none.",
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_GROUP,
            help="What each output is to the group: invariant (the default), vectors, images, masks, boxes (xyxy), "
            "cxcywh, keypoints, unordered (sets of boxes), unordered:distance:vectors, 4x0e+2x1o (irreps), voigt, "
            "voigt:strain, points, pairs, edges, sequences, states, …, labels:3,0,1,2 for classes that change places "
            "(generators apart by /), or find. Several outputs: KIND,KIND or NAME=KIND,…; KIND@1: its batch is axis 1.",
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_DATA,
            help="Where images keep channels, if shapes do not tell: channels_last or channels_first.",
            **one_of("channels_last", "channels_first"),
        ),
    ] = None,
    html: Html = None,
    json: Json = None,
    markdown: Markdown = None,
    junit: Junit = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VERDICT,
            help=f"Exit with status {ABOVE} unless the error is at most this, on the data and off it: 0.05 or 5%; "
            "or of single outputs or kinds: forces=0.05,invariant=1%.",
        ),
    ] = None,
    min_agreement: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VERDICT,
            help=f"Exit with status {ABOVE} if fewer predicted classes stay the same: 0.95 or 95%.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_VERDICT,
            help=f"An earlier --json: exit with status {ABOVE} if errors grew, by a paired test of the inputs.",
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VERDICT, help="The mean error that is acceptable under every element: 0.01 or 1%."
        ),
    ] = None,
    relative_to: Annotated[
        str,
        typer.Option(
            rich_help_panel=_VERDICT,
            help="What errors are relative to: norm, spread (between inputs), or larger (error of both).",
            **one_of("norm", "spread", "larger"),
        ),
    ] = "larger",
    output_scale: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VERDICT,
            help="The size of outputs that counts as 100 %, in their own unit: 0.1, or forces=0.1,energy=1.",
        ),
    ] = None,
    elements: Annotated[
        int | None, typer.Option(rich_help_panel=_GROUP, help="How many elements of the group to try.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(rich_help_panel=_DATA, help="Use this many inputs, drawn at random.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(rich_help_panel=_DATA, help="Inputs at a time.")] = None,
    on_data_only: Annotated[
        bool, typer.Option("--on-data-only", rich_help_panel=_MEASURE, help="No noise and no shuffled inputs.")
    ] = False,
    seed: Seed = 0,
    select: Annotated[
        str | None,
        typer.Option(rich_help_panel=_MODEL, help="Audit this one of several outputs, by name (logits) or position."),
    ] = None,
    transform: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_GROUP,
            help="A change that forms no group, with its strengths: brightness:0.5..1.5, gain:0.5,2, speed:0.8..1.2:5 "
            "(5 of them), contrast, offset, shift, scale, crop, or package.module:function:0..1. May be repeated; "
            "without --group these alone are audited.",
        ),
    ] = None,
    batch_axis: Annotated[
        int,
        typer.Option(
            rich_help_panel=_DATA, help="The axis of the inputs' batch, such as 1 for sequences of recurrent networks."
        ),
    ] = 0,
    effort: Annotated[
        str,
        typer.Option(
            rich_help_panel=_MEASURE,
            help="full, or quick: the error and its floor alone, on few evaluations.",
            **one_of("full", "quick"),
        ),
    ] = "full",
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", rich_help_panel=_MODEL, help="Load pickles, too. They run whatever code their author put in."
        ),
    ] = False,
) -> None:
    """Measure how far a model is from being equivariant, and where it breaks.

    equitangents audit net.onnx --data images.npz --group C4 --html audit.html

    equitangents audit mine:model --data clouds.npz --group SO3 --inputs vectors --outputs vectors --fail-above 5%

    The error is relative, and printed with the noise floor that interpolation and rounding explain.
    """
    from equitangents.array_files import load_data
    from equitangents.groups.names import parse_group_name
    from equitangents.model_files import check_model

    limits = limits_of(fail_above)
    agreement = share_of(min_agreement, "--min-agreement", "a share, 0.95 or 95%", lambda s: 0 <= s <= 1)
    tolerated = share_of(tolerance, "--tolerance", "a number above 0, 0.01 or 1%", lambda s: 0 < s < float("inf"))
    scale, files = scales(output_scale), {"html": html, "json": json, "markdown": markdown, "junit": junit}
    check_counts({"--elements": elements, "--limit": limit, "--batch-size": batch_size})
    check_files(files)
    check_file("baseline", baseline)
    check_together({"MODEL": model, "--data": data, "--group": group, "--transform": transform or None})
    check_file("data", data)
    assert model is not None  # check_together
    check_model(model, trust)
    if group is not None:
        parse_group_name("group", group)
    with stages() as stage, announced("equitangents.audit.layouts", err=True):
        stage(f"reading {data}")
        x, y = load_data(str(data), trust)
        kinds = kinds_of(inputs, x)
        x, y = limited(x, y, limit, seed, batch_axis)
        stage("importing JAX")
        from equitangents.audit.adapters import as_model
        from equitangents.audit.adapters.choose import load_model
        from equitangents.audit.contract.trees import along_axis
        from equitangents.audit.records import gather
        from equitangents.audit.report.checks import read_baseline
        from equitangents.audit.run import Audit

        expected = output_kinds(outputs)
        changes = transforms(transform)
        if baseline is not None:
            read_baseline(baseline)
        stage(f"loading {model}")
        f = as_model(load_model(model, trust))
        f.foreign = True  # of a function, too, an error is told in one line, with where it came from
        stage(f"evaluating {f.name}")
        entries: dict[str, Any] = {
            "inputs": kinds,
            "layout": layout,
            "select": int(select) if select is not None and select.isdigit() else select,
            "off_data": not on_data_only and effort != "quick",
            "transforms": None if group is None else changes,
            "tolerance": tolerated,
            "relative_to": relative_to,
            "output_scale": scale,
            "seed": seed,
        }
        told, action, x = gather({}, entries, effort), group or changes, along_axis(x, batch_axis)  # type: ignore[arg-type]
        report = Audit(f, action, x, expected, y, elements, told, batch_size, True, effort).report()  # type: ignore[arg-type]
    finish(report, files, _checks(report, limits, agreement, baseline))


def _checks(
    report: AuditReport, limits: float | dict[str, float] | None, min_agreement: float | None, baseline: Path | None
) -> list[Check]:
    """Everything that was demanded of the report."""
    from equitangents.audit.report.checks import agrees, below, each_below, no_worse

    found = each_below(report, limits) if isinstance(limits, dict) else []
    found += [below(report, limits)] if isinstance(limits, float) else []
    found += [agrees(report, min_agreement)] if min_agreement is not None else []
    return found + ([no_worse(report, baseline)] if baseline is not None else [])
