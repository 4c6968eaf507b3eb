"""What `--net` may be: an architecture by name, a JSON file of layers, or an object of the user's own module."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from equitangents import beside
from equitangents.cli.common import option
from equitangents.cli.completion import NETS, net_name

_NET = "mlp, cnn, FCN, VEC, LCN, GAP, LAP4, …, layers in a file.json, or package.module:object."
NET = option(str, _NET, "mlp", autocompletion=NETS, callback=net_name)
SHAPE = {
    "depth": option(
        int, "Hidden layers of a network that is named; 2 for mlp and cnn, 8 for the others, if not given."
    ),
    "w_std": option(float, "Standard deviation of weights of mlp and cnn.", math.sqrt(2), "--W-std"),
    "b_std": option(float, "Standard deviation of biases of mlp and cnn.", 0.1, "--b-std"),
}


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
