"""`equitangents list`, `reproduce` and `systems`: studies, and which architecture's symmetries hurt or help on data.

These commands start without JAX.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import typer

from equitangents.extending import options as cli
from equitangents.extending import require

ARCHITECTURES = ("FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
_SAME = ("inputs", "depth", "ridge", "repetitions", "error", "standardise", "seed")
_SOME = "FCN, LCN, VEC, GAP, LAP2, LAP4, …"


def _studies(incomplete: str) -> list[tuple[str, str]]:
    """Study names with this prefix, each with its title, for shell completion."""
    from equitangents_studies import registry

    return [(info.name, info.title) for info in registry.values() if info.name.startswith(incomplete)]


def _images(parameter: typer.CallbackParam, value: str | None) -> Any:
    """An existing file; a name without a suffix is a data set, which the study checks."""
    return cli.there(parameter, value) if value is not None and Path(value).suffix else value


def _presets(context: typer.Context, incomplete: str) -> list[str]:
    """Presets of the study on the command line, for shell completion."""
    from equitangents_studies import registry

    given = [context.params.get("study"), *context.args]  # an incomplete line is not parsed yet
    known = next((registry[name].presets for name in given if name in registry), ("quick", "desk", "paper"))
    return [name for name in known if name.startswith(incomplete)]


@cli.command(json=cli.JSON)
def list_studies(o: Any) -> None:
    """List the studies, one line each: name, presets, source, title.

    equitangents list

    equitangents list --json studies.json
    """
    from equitangents_studies import registry

    if o.json is not None:
        entries = ("name", "presets", "source", "title", "summary")
        listed = [{entry: getattr(info, entry) for entry in entries} for info in registry.values()]
        o.json.write_text(json.dumps(listed, indent=1, ensure_ascii=False), "utf-8")
    rows = [(info.name, ", ".join(info.presets), info.source, info.title) for info in registry.values()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        typer.echo("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]))


@cli.command(
    study=cli.argument(
        str,
        "Name of the study, as `equitangents list` shows it. For a paper (2403.03103, 2406.06504 or 2207.04612), list "
        "the command for each figure, table and theorem.",
        autocompletion=_studies,
    ),
    preset=cli.option(
        str,
        "Size of the study: quick takes minutes on two cores, desk up to some hours, and paper is for a GPU, at the "
        "size of the paper.",
        "quick",
        metavar="NAME",
        autocompletion=_presets,
    ),
    out=cli.option(Path, "Folder of the results, by default runs/STUDY-PRESET.", metavar="FOLDER"),
    resume=cli.flag("Resume an interrupted run."),
    settings=cli.option(
        list[str], "Change a setting of the preset. Can be repeated.", None, "--set", metavar="KEY=VALUE"
    ),
    data_dir=cli.option(Path, "Folder of data sets, by default EQUITANGENTS_DATA.", metavar="FOLDER"),
    data=cli.option(
        str, "Your own images (.npz with x and y), in studies of images.", metavar="FILE", callback=_images
    ),
    group=cli.option(str, "Group, such as C4 or D4, in studies with that setting.", metavar="NAME"),
    net=cli.option(str, "Network, such as VEC or GAP, in studies with that setting.", metavar="NAME"),
    force=cli.flag("Replace the run in the folder, whatever it is."),
)
def reproduce(o: Any) -> None:
    """Run a study, write its results, figures and report, and print each claim with its outcome.

    equitangents reproduce toy

    equitangents reproduce toy --preset desk --set members=20

    The exit status is 0 even if a claim fails, since that is a result.
    """
    from equitangents_studies.framework.catalogue import places

    if (shown := places(o.study)) is not None:
        from equitangents.report import Table, text_of

        header = ("figure, table or theorem", "equitangents reproduce …")
        typer.echo(text_of(Table("", header, [(place.item, place.command) for place in shown], text=True)))
        return
    changes = parse_settings(o.settings or [])
    for key, value in (("data", o.data), ("group", o.group), ("net", o.net)):
        if value is not None and changes.setdefault(key, value) != value:
            raise typer.BadParameter(f"{value!r}; --set has {key}={changes[key]}", param_hint=f"--{key}")
    from equitangents_studies.framework.catalogue import lookup

    lookup(o.study, o.preset)  # before JAX is imported: a wrong name is refused within a second
    require("pooch", "studies", "equitangents reproduce")
    import equitangents_studies as studies
    from equitangents.report import Table, text_of
    from equitangents_studies.claim import TITLES

    same = {name: getattr(o, name) for name in ("preset", "out", "resume", "data_dir", "force")}
    result = studies.run(o.study, settings=changes, progress=True, **same)
    for kind, title in TITLES.items():
        claims = [claim for claim in result.claims if claim.kind == kind]
        rows = [(c.outcome, c.statement, c.number_cell, c.interval_cell, c.bound_cell) for c in claims]
        if rows:
            typer.echo(text_of(Table(title, ("outcome", "claim", "number", "interval", "bound"), rows, text=True)))
    typer.echo(f"report: {result.report}")


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """`["members=20"]` -> `{"members": "20"}`; the study gives each value its type. An empty text is the empty list."""
    changes: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{pair!r} is not of the form key=value", param_hint="--set")
        changes[key] = value
    return changes


@cli.command(
    data=cli.option(
        Path,
        ".npz file with x (N, height, width, channels) and y, and optionally x_test and y_test.",
        ...,
        callback=cli.there,
    ),
    architectures=cli.option(str, f"Two or more of {_SOME}.", metavar="NAME,…"),
    groups=cli.option(
        str,
        "Groups whose random elements transform the data, by default O(3)xI, O(3)^d, P(3d) and O(3d), where 3 is the "
        "number of channels.",
        "O(3)xI,O(3)^d,P(3d),O(3d)",
        metavar="NAME,…",
        show_default=False,
    ),
    inputs=cli.option(int, "Number of inputs, drawn at random.", 1000),
    depth=cli.option(int, "Hidden layers.", 4),
    ridge=cli.option(float, "Ridge, relative to the kernel's mean diagonal.", 1e-4),
    repetitions=cli.option(int, "Training sets of each size.", 10),
    error=cli.pick(
        "Error of the learning curves, by default classification for labels unless some error is 0",
        None,
        *("classification", "squared"),
    ),
    standardise=cli.option(bool, "Standardise x by the mean and standard deviation of all its entries.", True),
    seed=cli.option(int, "Random seed.", 0, min=0),
    json=cli.JSON,
)
def systems(o: Any) -> None:
    """Find which architecture's symmetries help or hurt on your data, and how many samples each saves.

    equitangents systems --data digits.npz

    equitangents systems --data digits.npz --architectures FCN,VEC,GAP

    Learning curves of infinitely wide networks, on the data and on the data transformed by random elements of groups.
    Whole numbers or text in y are labels of classifiers; other targets make regressions. Work grows as the square of
    the number of inputs.
    """
    from equitangents.errors import InvalidArgumentError
    from equitangents.extending import read_named

    compared = None if o.architectures is None else _known(o.architectures)
    arrays = read_named("data", o.data, ("x", "y"))
    tests = [arrays[name] for name in ("x_test", "y_test") if name in arrays]
    if len(tests) == 1:
        raise InvalidArgumentError("data", str(o.data), "both x_test and y_test, or none")
    from equitangents_studies.framework.progress import Task
    from equitangents_studies.systems import compare_architectures

    found = compare_architectures(
        arrays["x"],
        arrays["y"],
        test=(tests[0], tests[1]) if tests else None,
        architectures=compared,
        groups=_parts(o.groups),
        **{name: getattr(o, name) for name in _SAME},
        progress=Task("Learning curves of architectures", shown=sys.stderr.isatty()).step,
    )
    typer.echo(str(found))
    if o.json is not None:
        from equitangents_studies.framework.folder import write_json

        write_json(o.json, found.to_dict())


def _parts(text: str) -> list[str]:
    return [part for part in text.replace(" ", "").split(",") if part]


def _known(text: str) -> list[str]:
    """Architecture names for `systems.architecture`, checked before JAX is imported."""
    from equitangents.extending import unknown

    names = _parts(text)
    for name in names:
        if name not in ARCHITECTURES and not re.fullmatch(r"LAP[1-9]\d*", name):
            raise unknown("architectures", name, [*ARCHITECTURES, "LAPk"])
    return names


COMMANDS = {"list": list_studies, "reproduce": reproduce, "systems": systems}
