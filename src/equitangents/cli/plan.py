"""`equitangents plan`: how many members an ensemble needs for a wanted equivariance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from equitangents.cli import options as cli
from equitangents.errors import InvalidArgumentError


@cli.command(
    data=cli.option(Path, ".npz file with x, y and optionally x_test, y_test.", ..., callback=cli.there),
    group=cli.option(str, "C4, D4, … for images (N, H, W, C); C5 or S5 for vectors (N, 5).", ..., **cli.a_group()),
    net=cli.pick("Network", "mlp", "mlp", "cnn"),
    depth=cli.option(int, "Hidden layers.", 2, min=1),
    width=cli.option(int, "Of the hidden layers: units, or channels.", 64, min=1),
    pilot=cli.option(int, "Networks trained as a pilot, by default 20; 0: plan from theory, at infinite width."),
    **cli.STDS,
    augment=cli.option(bool, "Train on all transformed copies, or on the data as they are.", True),
    target=cli.option(float, "The largest violation that is accepted.", 0.01),
    measure=cli.pick("Violation", "rsd", "rsd", "osp", "equivariance_error", "spread_over_error", "error"),
    epochs=cli.option(int, "Steps of full-batch gradient descent.", 100),
    learning_rate=cli.option(float, "Of gradient descent, or of gradient flow.", 0.1),
    time=cli.option(float, "With --pilot 0: training time, or inf. [default: epochs]"),
    ridge=cli.option(float, "With --pilot 0: relative to the kernel's mean diagonal."),
    inputs=cli.option(int, "Plan for at most so many inputs.", 100, min=1),
    draws=cli.option(int, "Ensembles that are drawn.", 2000),
    seed=cli.option(int, "Seed of the pilot and the draws.", 0),
    json=cli.option(Path, "Write all numbers.", callback=cli.writable),
)
def plan(o: Any) -> None:
    """How many members bring an ensemble's violation of a symmetry below a target.

    equitangents plan --data digits.npz --group C4 --target 0.01

    equitangents plan --data digits.npz --group C4 --pilot 0

    A pilot of some networks is trained on the data by full-batch gradient descent, and the plan, with its interval, is
    that of such networks. --pilot 0 plans from theory, as if networks were infinitely wide.

    Labels (whole numbers or text in y) make a classifier, other targets a regression.
    """
    for name in ("time", "ridge"):
        if o.pilot != 0 and getattr(o, name) is not None:
            raise InvalidArgumentError(name, getattr(o, name), "none for a pilot", "give --pilot 0")
    with cli.stages() as stage, cli.announced("equitangents.pilot"):
        stage("loading what trains networks and computes kernels")
        import numpy as np

        from equitangents import ensembles
        from equitangents.actions import as_action
        from equitangents.foreign_files import read_named
        from equitangents.planning import plan_ensemble
        from equitangents.planning.pilot import are_labels

        stage(f"reading {o.data}")
        arrays = read_named("data", o.data, ("x", "y"))
        x, y = arrays["x"], arrays["y"]
        inputs, truth = (arrays["x_test"], arrays.get("y_test")) if "x_test" in arrays else (x, y)
        action, labels = as_action("group", o.group, x.shape), are_labels(y)
        outputs = len(np.unique(y)) if labels else 1 if y.ndim == 1 else int(y.shape[-1])
        network = cli.plain_network(o.net, o.depth, o.w_std, o.b_std, o.width, outputs)
        augmentation = action if o.augment else None
        ensemble: Any
        if o.pilot == 0:
            stage("computing kernels of infinite width")
            infinite = ensembles.InfiniteEnsembleClassifier if labels else ensembles.InfiniteEnsemble
            time, ridge = float(o.epochs) if o.time is None else o.time, o.ridge or 0.0
            ensemble = infinite(network, augmentation, time=time, learning_rate=o.learning_rate, ridge=ridge).fit(x, y)
        else:
            stage("training a pilot")
            finite = ensembles.DeepEnsembleClassifier if labels else ensembles.DeepEnsemble
            how: dict[str, Any] = {name: getattr(o, name) for name in ("epochs", "learning_rate", "seed")}
            ensemble = finite(network, augmentation=augmentation, optimizer="gd", loss="mse", **how)
        found = plan_ensemble(
            ensemble,
            action,
            inputs[: o.inputs],
            y=None if truth is None else truth[: o.inputs],
            pilot=o.pilot or None,
            data=None if o.pilot == 0 else (x, y),
            **{name: getattr(o, name) for name in ("target", "measure", "draws", "seed")},
        )
    typer.echo(str(found))
    if o.json is not None:
        typer.echo(f"written: {found.to_json(o.json)}")
