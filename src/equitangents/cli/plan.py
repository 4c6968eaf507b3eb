"""`equitangents plan`: how many members an ensemble needs for a wanted equivariance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer

from equitangents.cli.common import AGAIN, announced, command, kept, option, stages
from equitangents.cli.completion import GROUPS, group_name, one_of, there, writable
from equitangents.errors import InvalidArgumentError


@command(
    (
        None,
        {
            "data": option(Path, ".npz file with x, y and optionally x_test, y_test.", ..., callback=there),
            "group": option(
                str,
                "C4, D4, … for images (N, H, W, C); C5 or S5 for vectors (N, 5).",
                ...,
                autocompletion=GROUPS,
                callback=group_name,
            ),
            "net": option(str, "mlp or cnn.", "mlp", **one_of("mlp", "cnn")),
            "depth": option(int, "Hidden layers.", 2),
            "width": option(int, "Of the hidden layers: units, or channels.", 64),
            "pilot": option(int, "Networks trained as a pilot, by default 20; 0: plan from theory, at infinite width."),
            "w_std": option(float, "Standard deviation of weights.", math.sqrt(2), "--W-std"),
            "b_std": option(float, "Standard deviation of biases.", 0.1, "--b-std"),
            "augment": option(bool, "Train on all transformed copies, or on the data as they are.", True),
            "target": option(float, "The largest violation that is accepted.", 0.01),
            "measure": option(
                str,
                "rsd, osp, equivariance_error, spread_over_error or error.",
                "rsd",
                **one_of("rsd", "osp", "equivariance_error", "spread_over_error", "error"),
            ),
            "over_inputs": option(str, "mean, median or max over inputs.", "mean", **one_of("mean", "median", "max")),
            "confidence": option(float, "Share of ensembles that are to meet the target.", 0.95),
            "epochs": option(int, "Steps of full-batch gradient descent.", 100),
            "learning_rate": option(float, "Of gradient descent, or of gradient flow.", 0.1),
            "time": option(float, "With --pilot 0: training time, or inf. [default: epochs]"),
            "ridge": option(float, "With --pilot 0: relative to the kernel's mean diagonal.", 0.0),
            "inputs": option(int, "Plan for at most so many inputs.", 100),
            "draws": option(int, "Ensembles that are drawn.", 2000),
            "max_members": option(int, "The most members to consider.", 1_000_000),
            "seed": option(int, "Seed of the pilot and the draws.", 0),
            "json": option(Path, "Write all numbers.", callback=writable),
        },
    )
)
def plan(o: Any) -> None:
    """How many members bring an ensemble's violation of a symmetry below a target.

    equitangents plan --data digits.npz --group C4 --target 0.01

    equitangents plan --data digits.npz --group C4 --pilot 0

    A pilot of some networks is trained on the data by full-batch gradient descent, and the plan, with its interval, is
    that of such networks. --pilot 0 plans from theory, as if networks were infinitely wide.

    Labels (whole numbers or text in y) make a classifier, other targets a regression.
    """
    with stages() as stage:
        stage("loading what trains networks and computes kernels")
        from equitangents.actions import as_action
        from equitangents.planning import plan_ensemble, question

    if o.pilot != 0 and (o.time is not None or o.ridge != 0):
        name, value = ("ridge", o.ridge) if o.time is None else ("time", o.time)
        raise InvalidArgumentError(name, value, "none for a pilot", "give --pilot 0")
    with stages() as stage:
        stage(f"reading {o.data}")
        asked = question.read_data(o.data, o.inputs)
        action = as_action("group", o.group, asked.x.shape)
        network = question.network(o.net, o.depth, o.w_std, o.b_std, o.width, asked.outputs)
        augmentation = action if o.augment else None
        if o.pilot == 0:
            stage("computing kernels of infinite width")
            reached = float(o.epochs) if o.time is None else o.time
            ensemble = question.fit(
                asked, network, augmentation, time=reached, learning_rate=o.learning_rate, ridge=o.ridge
            )
        else:
            ensemble = question.pilot(asked, network, augmentation, o.epochs, o.learning_rate, o.seed)
    with stages() as stage, announced("equitangents.pilot"):
        stage("drawing ensembles" if o.pilot == 0 else "training a pilot")
        found = plan_ensemble(
            ensemble,
            action,
            asked.inputs,
            o.target,
            o.measure,
            o.confidence,
            y=asked.targets,
            pilot=None if o.pilot == 0 else o.pilot,
            data=None if o.pilot == 0 else (asked.x, asked.y),
            over_inputs=o.over_inputs,
            draws=o.draws,
            seed=o.seed,
            max_members=o.max_members,
        )
    with kept(lambda: f"the plan is made, and files that were named as written are whole: {AGAIN}"):
        typer.echo(str(found))
        if o.json is not None:
            typer.echo(f"written: {found.to_json(o.json)}")
