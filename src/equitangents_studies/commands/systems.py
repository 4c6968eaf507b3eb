"""`equitangents systems`: which architecture's symmetries hurt and which help on the user's own data."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer

from equitangents.extending import options as cli

ARCHITECTURES = ("FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
_SAME = ("inputs", "depth", "ridge", "repetitions", "error", "standardise", "seed")
_SOME = "FCN, LCN, VEC, GAP, LAP2, LAP4, …"


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
    seed=cli.option(int, "Random seed.", 0),
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
    """Architectures by name, as `systems.architecture` has them, looked at before what computes is imported."""
    from equitangents.extending import unknown

    names = _parts(text)
    for name in names:
        if name not in ARCHITECTURES and not re.fullmatch(r"LAP[1-9]\d*", name):
            raise unknown("architectures", name, [*ARCHITECTURES, "LAPk"])
    return names
