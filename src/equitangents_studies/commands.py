"""`equitangents list`, `reproduce` and `systems`: studies, and which architecture's symmetries hurt or help on data.

These commands start without JAX.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from equitangents.extending import one_of, require, there, writable

ARCHITECTURES = ("FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
_SOME = "FCN, LCN, VEC, GAP, LAP2, LAP4, …"


def _studies(incomplete: str) -> list[tuple[str, str]]:
    """Study names with this prefix, each with its title, for shell completion."""
    from equitangents_studies import registry

    return [(info.name, info.title) for info in registry.values() if info.name.startswith(incomplete)]


def _images(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """An existing file; a name without a suffix is a data set, which the study checks."""
    return there(parameter, value) if value is not None and Path(value).suffix else value


def _presets(context: typer.Context, incomplete: str) -> list[str]:
    """Presets of the study on the command line, for shell completion."""
    from equitangents_studies import registry

    given = [context.params.get("study"), *context.args]  # an incomplete line is not parsed yet
    known = next((registry[name].presets for name in given if name in registry), ("quick", "desk", "paper"))
    return [name for name in known if name.startswith(incomplete)]


def list_studies(
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write name, presets, source, title and summary of each as JSON.")
    ] = None,
) -> None:
    """List the studies, one line each: name, presets, source, title."""
    from equitangents_studies import registry

    if json_path is not None:
        entries = ("name", "presets", "source", "title", "summary")
        infos = [{entry: getattr(info, entry) for entry in entries} for info in registry.values()]
        json_path.write_text(json.dumps(infos, indent=1, ensure_ascii=False), "utf-8")
    rows = [(info.name, ", ".join(info.presets), info.source, info.title) for info in registry.values()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        typer.echo("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]))


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="Name of the study, as `equitangents list` shows it; or a work (2403.03103, 2406.06504, 2207.04612), "
            "whose figures, tables and theorems are listed with their commands.",
            autocompletion=_studies,
        ),
    ],
    preset: Annotated[
        str,
        typer.Option(
            help="quick: minutes on two cores; desk, where a study has it: some minutes to some hours; paper: the "
            "sizes of the source, for a GPU.",
            autocompletion=_presets,
        ),
    ] = "quick",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; by default one in runs/ named after study and preset.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder of the results.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the preset; repeatable.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of data sets in files; by default EQUITANGENTS_DATA.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            callback=_images,
            help="Your own images, a NumPy archive with x and y, for studies of images.",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The group, such as C4 or D4, for studies that leave the choice.")
    ] = None,
    net: Annotated[
        str | None, typer.Option(help="The network, such as VEC or GAP, for studies that leave the choice.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run of another study or with other settings in the folder.")
    ] = False,
) -> None:
    """Run a study; write its results, figures and report; print its claims with their outcomes.

    A claim that fails is a result: the exit status is 0 all the same.
    """
    from equitangents_studies.framework.catalogue import places

    if (shown := places(study)) is not None:
        from equitangents.report import Table, text_of

        header = ("figure, table or theorem", "equitangents reproduce …")
        typer.echo(text_of(Table("", header, [(place.item, place.command) for place in shown], text=True)))
        return
    changes = parse_settings(settings or [])
    for key, value in (("data", data), ("group", group), ("net", net)):
        if value is not None and changes.setdefault(key, value) != value:
            raise typer.BadParameter(f"{value!r}; --set has {key}={changes[key]}", param_hint=f"--{key}")
    from equitangents_studies.framework.catalogue import lookup

    lookup(study, preset)  # before JAX is imported: a wrong name is refused within a second
    require("pooch", "studies", "equitangents reproduce")
    import equitangents_studies as studies
    from equitangents.report import Table, text_of
    from equitangents_studies.claim import TITLES

    result = studies.run(
        study, preset=preset, out=out, resume=resume, settings=changes, data_dir=data_dir, progress=True, force=force
    )
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


def systems(
    data: Annotated[
        Path,
        typer.Option(
            callback=there, help=".npz file with x (N, height, width, channels), y, and optionally x_test, y_test."
        ),
    ],
    architectures: Annotated[str | None, typer.Option(help=f"Two or more of {_SOME}, with commas.")] = None,
    groups: Annotated[
        str, typer.Option(help="What moves the data, with commas; 3 stands for their channels.")
    ] = "O(3)xI,O(3)^d,P(3d),O(3d)",
    inputs: Annotated[int, typer.Option(help="How many are used, drawn at random; work grows as their square.")] = 1000,
    depth: Annotated[int, typer.Option(help="Hidden layers.")] = 4,
    ridge: Annotated[float, typer.Option(help="Relative to the kernel's mean diagonal.")] = 1e-4,
    repetitions: Annotated[int, typer.Option(help="Training sets of each size.")] = 10,
    error: Annotated[
        str | None,
        typer.Option(
            help="classification or squared; by default the first for labels, unless some error is 0.",
            **one_of("classification", "squared"),
        ),
    ] = None,
    standardise: Annotated[
        bool, typer.Option(help="Subtract the mean of all entries of x, and divide by their standard deviation.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of inputs, training sets and the groups' elements.")] = 0,
    json_path: Annotated[Path | None, typer.Option("--json", callback=writable, help="Write all numbers.")] = None,
) -> None:
    """Which architecture's symmetries hurt on your data, which help, and how many samples each saves.

    Infinitely wide FCN, VEC (which LCN equals), LAP and GAP are trained on nested sets of the original data, and of
    data moved by random elements of groups. Labels (whole numbers or text in y) make classifiers, other targets
    regressions.
    """
    from equitangents.errors import InvalidArgumentError
    from equitangents.extending import read_named

    compared = None if architectures is None else _known(architectures)
    arrays = read_named("data", data, ("x", "y"))
    tests = [arrays[name] for name in ("x_test", "y_test") if name in arrays]
    if len(tests) == 1:
        raise InvalidArgumentError("data", str(data), "both x_test and y_test, or none")
    from equitangents_studies.framework.progress import Task
    from equitangents_studies.systems import compare_architectures

    found = compare_architectures(
        arrays["x"],
        arrays["y"],
        test=(tests[0], tests[1]) if tests else None,
        architectures=compared,
        groups=_parts(groups),
        inputs=inputs,
        depth=depth,
        ridge=ridge,
        repetitions=repetitions,
        error=error,  # type: ignore[arg-type]
        standardise=standardise,
        seed=seed,
        progress=Task("Learning curves of architectures", shown=sys.stderr.isatty()).step,
    )
    typer.echo(str(found))
    if json_path is not None:
        from equitangents_studies.framework.folder import write_json

        write_json(json_path, found.to_dict())


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
