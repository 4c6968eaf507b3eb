"""`equitangents plan`: how many members an ensemble needs for a wanted equivariance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from equitangents.cli.common import AGAIN, announced, kept, stages
from equitangents.cli.completion import GROUPS, group_name, one_of, there
from equitangents.errors import InvalidArgumentError


def plan(
    data: Annotated[Path, typer.Option(callback=there, help=".npz file with x, y and optionally x_test, y_test.")],
    group: Annotated[
        str,
        typer.Option(
            help="C4, D4, … for images (N, H, W, C); C5 or S5 for vectors (N, 5).",
            autocompletion=GROUPS,
            callback=group_name,
        ),
    ],
    net: Annotated[str, typer.Option(help="mlp or cnn.", **one_of("mlp", "cnn"))] = "mlp",
    depth: Annotated[int, typer.Option(help="Hidden layers.")] = 2,
    width: Annotated[int, typer.Option(help="Of the hidden layers: units, or channels.")] = 64,
    pilot: Annotated[
        int | None,
        typer.Option(help="Networks trained as a pilot, by default 20; 0: plan from theory, at infinite width."),
    ] = None,
    w_std: Annotated[float, typer.Option("--W-std", help="Standard deviation of weights.")] = math.sqrt(2),
    b_std: Annotated[float, typer.Option("--b-std", help="Standard deviation of biases.")] = 0.1,
    augment: Annotated[bool, typer.Option(help="Train on all transformed copies, or on the data as they are.")] = True,
    target: Annotated[float, typer.Option(help="The largest violation that is accepted.")] = 0.01,
    measure: Annotated[
        str,
        typer.Option(
            help="rsd, osp, equivariance_error, spread_over_error or error.",
            **one_of("rsd", "osp", "equivariance_error", "spread_over_error", "error"),
        ),
    ] = "rsd",
    over_inputs: Annotated[
        str, typer.Option(help="mean, median or max over inputs.", **one_of("mean", "median", "max"))
    ] = "mean",
    confidence: Annotated[float, typer.Option(help="Share of ensembles that are to meet the target.")] = 0.95,
    epochs: Annotated[int, typer.Option(help="Steps of full-batch gradient descent.")] = 100,
    learning_rate: Annotated[float, typer.Option(help="Of gradient descent, or of gradient flow.")] = 0.1,
    time: Annotated[float | None, typer.Option(help="With --pilot 0: training time, or inf. [default: epochs]")] = None,
    ridge: Annotated[float, typer.Option(help="With --pilot 0: relative to the kernel's mean diagonal.")] = 0.0,
    inputs: Annotated[int, typer.Option(help="Plan for at most so many inputs.")] = 100,
    draws: Annotated[int, typer.Option(help="Ensembles that are drawn.")] = 2000,
    max_members: Annotated[int, typer.Option(help="The most members to consider.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the pilot and the draws.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write all numbers.")] = None,
) -> None:
    """How many members bring an ensemble's violation of a symmetry below a target.

    A pilot of some networks is trained on the data by full-batch gradient descent, and the plan, with its interval, is
    that of such networks. --pilot 0 plans from theory, as if networks were infinitely wide.

    Labels (whole numbers or text in y) make a classifier, other targets a regression.
    """
    with stages() as stage:
        stage("loading what trains networks and computes kernels")
        from equitangents.actions import as_action
        from equitangents.planning import plan_ensemble, question

    question.check_writable("json", json)
    if pilot != 0 and (time is not None or ridge != 0):
        name, value = ("ridge", ridge) if time is None else ("time", time)
        raise InvalidArgumentError(name, value, "none for a pilot", "give --pilot 0")
    with stages() as stage:
        stage(f"reading {data}")
        asked = question.read_data(data, inputs)
        action = as_action("group", group, asked.x.shape)
        network = question.network(net, depth, w_std, b_std, width, asked.outputs)
        augmentation = action if augment else None
        if pilot == 0:
            stage("computing kernels of infinite width")
            reached = float(epochs) if time is None else time
            ensemble = question.fit(
                asked, network, augmentation, time=reached, learning_rate=learning_rate, ridge=ridge
            )
        else:
            ensemble = question.pilot(asked, network, augmentation, epochs, learning_rate, seed)
    with stages() as stage, announced("equitangents.pilot"):
        stage("drawing ensembles" if pilot == 0 else "training a pilot")
        found = plan_ensemble(
            ensemble,
            action,
            asked.inputs,
            target,
            measure,
            confidence,
            y=asked.targets,
            pilot=None if pilot == 0 else pilot,
            data=None if pilot == 0 else (asked.x, asked.y),
            over_inputs=over_inputs,
            draws=draws,
            seed=seed,
            max_members=max_members,
        )
    with kept(lambda: f"the plan is made, and files that were named as written are whole: {AGAIN}"):
        typer.echo(str(found))
        if json is not None:
            typer.echo(f"written: {found.to_json(json)}")
