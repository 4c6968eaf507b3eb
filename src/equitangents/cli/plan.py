"""`equitangents plan`: how many members an ensemble needs to be equivariant up to a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from equitangents.cli import options as cli
from equitangents.errors import InvalidArgumentError


@cli.command(
    **cli.panel(
        "Data",
        data=cli.option(Path, ".npz file with x and y, optionally x_test and y_test.", ..., callback=cli.local_file),
        inputs=cli.option(int, "Use at most this many inputs.", 100, min=1),
    ),
    **cli.panel(
        "Plan",
        group=cli.option(
            str, "C4, D4, … for images (N, H, W, C); C5 or S5 for vectors (N, 5).", ..., metavar="NAME", **cli.a_group()
        ),
        target=cli.option(float, "Largest violation allowed.", 0.01),
        measure=cli.pick(
            "Measure of the violation", "rsd", "rsd", "osp", "equivariance_error", "spread_over_error", "error"
        ),
        pilot=cli.option(int, "Networks of the pilot, by default 20; 0 plans from theory, for infinite width."),
        draws=cli.option(int, "Ensembles drawn for the interval.", 2000),
    ),
    **cli.panel(
        "Networks",
        net=cli.pick("Network", "mlp", "mlp", "cnn"),
        depth=cli.option(int, "Hidden layers.", 2, min=1),
        width=cli.option(int, "Units or channels of a hidden layer.", 64, min=1),
        **cli.STDS,
        augment=cli.option(bool, "Train on all transformed copies of the data.", True),
        epochs=cli.option(int, "Steps of full-batch gradient descent.", 100),
        learning_rate=cli.option(float, "Learning rate.", 0.1),
        time=cli.option(float, "Training time with --pilot 0, or inf; by default --epochs."),
        ridge=cli.option(float, "Ridge with --pilot 0, relative to the kernel's mean diagonal."),
    ),
    seed=cli.option(int, "Random seed.", 0, min=0),
    json=cli.JSON,
)
def plan(o: Any) -> None:
    """Find how many members bring an ensemble's violation of a symmetry below a target.

    equitangents plan --data digits.npz --group C4 --target 0.01

    equitangents plan --data digits.npz --group C4 --pilot 0

    A pilot of a few networks is trained on the data by full-batch gradient descent, and the plan is estimated from
    it, with an interval. Whole numbers or text in y are labels of a classifier; other targets make a regression.
    """
    for name in ("time", "ridge"):
        if o.pilot != 0 and getattr(o, name) is not None:
            raise InvalidArgumentError(name, getattr(o, name), "none for a pilot", "give --pilot 0")
    with cli.stages() as stage, cli.announced("equitangents.pilot"):
        stage("importing JAX")
        import numpy as np

        from equitangents import ensembles
        from equitangents.actions import as_action
        from equitangents.foreign_files import read_named
        from equitangents.nn.specification import plain_network
        from equitangents.planning import plan_ensemble
        from equitangents.planning.pilot import are_labels

        stage(f"reading {o.data}")
        arrays = read_named("data", o.data, ("x", "y"))
        x, y = arrays["x"], arrays["y"]
        inputs, truth = (arrays["x_test"], arrays.get("y_test")) if "x_test" in arrays else (x, y)
        action, labels = as_action("group", o.group, x.shape), are_labels(y)
        outputs = len(np.unique(y)) if labels else 1 if y.ndim == 1 else int(y.shape[-1])
        network = plain_network(o.net, o.depth, o.w_std, o.b_std, o.width, outputs)
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
        result = plan_ensemble(
            ensemble,
            action,
            inputs[: o.inputs],
            y=None if truth is None else truth[: o.inputs],
            pilot=o.pilot or None,
            data=None if o.pilot == 0 else (x, y),
            **{name: getattr(o, name) for name in ("target", "measure", "draws", "seed")},
        )
    typer.echo(str(result))
    if o.json is not None:
        typer.echo(f"written: {result.to_json(o.json)}")
