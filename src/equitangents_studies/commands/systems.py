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
            metavar="FILE",
            callback=there,
            help=".npz file with x (N, height, width, channels) and y, and optionally x_test and y_test.",
        ),
    ],
    architectures: Annotated[str | None, typer.Option(metavar="NAME,…", help=f"Two or more of {_SOME}.")] = None,
    groups: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            show_default=False,
            help="Groups whose random elements transform the data, by default O(3)xI, O(3)^d, P(3d) and O(3d), where 3 "
            "is the number of channels.",
        ),
    ] = "O(3)xI,O(3)^d,P(3d),O(3d)",
    inputs: Annotated[int, typer.Option(metavar="N", help="Number of inputs, drawn at random.")] = 1000,
    depth: Annotated[int, typer.Option(metavar="N", help="Hidden layers.")] = 4,
    ridge: Annotated[float, typer.Option(metavar="X", help="Ridge, relative to the kernel's mean diagonal.")] = 1e-4,
    repetitions: Annotated[int, typer.Option(metavar="N", help="Training sets of each size.")] = 10,
    error: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Error of the learning curves, by default classification for labels unless some error is 0: "
            "classification, squared.",
            **one_of("classification", "squared"),
        ),
    ] = None,
    standardise: Annotated[
        bool, typer.Option(metavar="", help="Standardise x by the mean and standard deviation of all its entries.")
    ] = True,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", callback=writable, help="Write the result to this file, as JSON.")
    ] = None,
) -> None:
    """Find which architecture's symmetries help or hurt on your data, and how many samples each saves.

    equitangents systems --data digits.npz

    equitangents systems --data digits.npz --architectures FCN,VEC,GAP

    Learning curves of infinitely wide networks, on the data and on the data transformed by random elements of groups.
    Whole numbers or text in y are labels of classifiers; other targets make regressions. Work grows as the square of
    the number of inputs.
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
