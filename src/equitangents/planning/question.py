"""From a file of data and a few words to what `plan_ensemble` needs: a fitted ensemble, an action and inputs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.validation import check_whole

NETS = ("mlp", "cnn")


@dataclass(frozen=True, eq=False)
class PlanningData:
    """Training data x, y and the inputs (with targets, if known) whose orbits are to be treated alike."""

    x: np.ndarray
    y: np.ndarray
    inputs: np.ndarray
    targets: np.ndarray | None

    @property
    def labels(self) -> bool:
        """Whether y are class labels: whole numbers, text or truth values, in one column."""
        return self.y.ndim == 1 and self.y.dtype.kind in "iuUSb"


def read_data(path: Any, most_inputs: int) -> PlanningData:
    """Arrays `x`, `y` and, if there, `x_test`, `y_test` of an .npz file; at most `most_inputs` inputs are planned for.

    Without `x_test` the training inputs are planned for.
    """
    check_whole("inputs", most_inputs, 1)
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files} if hasattr(file, "files") else {}
    except (OSError, ValueError, EOFError) as error:
        raise InvalidArgumentError(f"data is {str(path)!r}, which cannot be read as an .npz file: {error}") from None
    missing = [name for name in ("x", "y") if name not in arrays]
    if missing:
        raise InvalidArgumentError(
            f"data is {str(path)!r}, which holds {sorted(arrays) or 'no named arrays'}; expected arrays x and y, and "
            f"optionally x_test and y_test"
        )
    tested = "x_test" in arrays
    targets = arrays.get("y_test") if tested else arrays["y"]
    return PlanningData(
        arrays["x"],
        arrays["y"],
        arrays["x_test" if tested else "x"][:most_inputs],
        None if targets is None else targets[:most_inputs],
    )


def check_writable(option: str, path: Path | None, suffixes: tuple[str, ...] = ()) -> None:
    """Raise InvalidArgumentError unless a file can be written there; its folder is made."""
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        raise InvalidArgumentError(f"{option} is {str(path)!r}; expected a name that ends in {' or '.join(suffixes)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"{option} is {str(path)!r}, which cannot be written: {error}") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidArgumentError(f"{option} is {str(path)!r}, which cannot be written")


def network(kind: str, depth: int, W_std: float, b_std: float) -> nn.Sequential:
    """`depth` hidden layers of an MLP, or of 3×3 convolutions that are then flattened; ReLU. Width does not matter."""
    if kind not in NETS:
        raise InvalidArgumentError(f"net is {kind!r}; expected {' or '.join(map(repr, NETS))}")
    check_whole("depth", depth, 1)
    readout = nn.Dense(1, W_std=W_std)
    if kind == "mlp":
        dense = [nn.Dense(1, W_std=W_std, b_std=b_std), nn.Relu()]
        return nn.Sequential(nn.Flatten(), *(depth * dense), readout)
    convolutions = [nn.Conv(1, (3, 3), W_std=W_std, b_std=b_std), nn.Relu()]
    return nn.Sequential(*(depth * convolutions), nn.Flatten(), readout)


def action_of(name: str, x: np.ndarray) -> actions.Action:
    """C4, D4 and the like: turns and reflections of images (N, H, W, C); cyclic shifts Cd and all permutations Sd of
    the d features of vectors (N, d).
    """
    match = re.fullmatch(r"([CDS])(\d+)", name)
    if match is None:
        raise InvalidArgumentError(f"group is {name!r}; expected a name such as C4 or D4, or S3 for vectors")
    family, n = match[1], int(match[2])
    if x.ndim == 4 and family in "CD":
        return actions.image_rotations(n) if family == "C" else actions.image_dihedral(n)
    if x.ndim == 2 and family in "CS":
        if n != x.shape[1]:
            raise ShapeError(f"group is {name!r} and x has {x.shape[1]} features; expected {family}{x.shape[1]}")
        group = groups.cyclic(n) if family == "C" else groups.symmetric(n)
        shifts = (np.arange(n)[:, None] + np.arange(n)) % n
        table = shifts if family == "C" else np.array(group.labels)
        return actions.linear(group, np.eye(n)[table].transpose(0, 2, 1))
    raise InvalidArgumentError(
        f"group is {name!r} and x has shape {x.shape}; expected C or D with images (N, H, W, C), C or S with vectors"
    )


def fit(
    data: PlanningData, net: nn.Sequential, action: actions.Action | None, **settings: Any
) -> InfiniteEnsemble | InfiniteEnsembleClassifier:
    """The ensemble on the data: a classifier where y are labels. `action`: of augmentation, or None."""
    kind = InfiniteEnsembleClassifier if data.labels else InfiniteEnsemble
    return kind(net, augmentation=action, **settings).fit(data.x, data.y)
