"""`equitangents systems`: which architecture's symmetries hurt and which help on the user's own data."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from equitangents.extending import one_of, there, writable

ARCHITECTURES = ("FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
_SOME = "FCN, LCN, VEC, GAP, LAP2, LAP4, …"


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
    json: Annotated[Path | None, typer.Option(callback=writable, help="Write all numbers.")] = None,
) -> None:
    """Which architecture's symmetries hurt on your data, which help, and how many samples each saves.

    Infinitely wide FCN, VEC (which LCN equals), LAP and GAP are trained on nested sets of the data as they are, and
    moved by random elements of groups. Labels (whole numbers or text in y) make classifiers, other targets regressions.
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
    if json is not None:
        from equitangents_studies.framework.folder import write_json

        write_json(json, found.to_dict())


def _parts(text: str) -> list[str]:
    return [part for part in text.replace(" ", "").split(",") if part]


def _known(text: str) -> list[str]:
    """Architectures by name, as `systems.architecture` has them, looked at before what computes is imported."""
    from equitangents.extending import unknown

    names = _parts(text)
    for name in names:
        if name not in ARCHITECTURES and not re.fullmatch(r"LAP[1-9]\d*", name):
            raise unknown("architectures", name, [*ARCHITECTURES, "LAPk"])
    return names
