"""What `--net` may be: an architecture by name, a JSON file of layers, or an object of the user's own module."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from equitangents import beside
from equitangents.cli.completion import NETS, net_name

Net = Annotated[
    str,
    typer.Option(
        help="mlp, cnn, FCN, VEC, LCN, GAP, LAP4, …, layers in a file.json, or package.module:object.",
        autocompletion=NETS,
        callback=net_name,
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        help="Hidden layers of a network that is named; 2 for mlp and cnn, 8 for the others, if it is not given."
    ),
]
WStd = Annotated[float, typer.Option("--W-std", help="Standard deviation of weights of mlp and cnn.")]
BStd = Annotated[float, typer.Option("--b-std", help="Standard deviation of biases of mlp and cnn.")]
W_STD = math.sqrt(2)


def network(spec: str, depth: int | None, w_std: float, b_std: float) -> Any:
    """The network that `--net` names; which `net_name` has looked at."""
    from equitangents.planning.question import NETS

    if spec.lower().endswith(".json"):
        from equitangents.nn.specification import read_network

        return read_network(Path(spec))
    if ":" in spec:
        from equitangents.audit.adapters.choose import load_model

        return load_model(spec)
    if spec in NETS:
        from equitangents.planning import question

        return question.network(spec, 2 if depth is None else depth, w_std, b_std)
    return beside.room("systems").architecture(spec, 8 if depth is None else depth)
