"""`equitangents predict`: predictions of a saved model for any number of inputs, from files to a file."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer

from equitangents.cli import images
from equitangents.cli import options as cli
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration


@cli.command(
    model=cli.argument(Path, "Folder of a model saved by `equitangents fit`.", callback=cli.there),
    data=cli.path("Inputs: .npy, .npz with x, a Zarr array, or a folder of images.", ...),
    out=cli.option(str, "File to write: .npy or .npz; for images also .csv.", ..., metavar="FILE"),
    skip_bad=cli.flag("Skip images that cannot be read, and list them."),
    array=cli.option(str, "Name of the array in an .npz file or Zarr group.", "x"),
    std=cli.flag("Also write standard deviations, and the probabilities of a classifier."),
    min_confidence=cli.number("In a .csv file, leave a label empty if its probability is lower.", cli.probability),
    time=cli.option(float, "Training time, if not that of the model."),
    rows=cli.option(int, "Inputs per batch."),
    shard=cli.SHARD,
    net=cli.option(str, "The network (package.module:object), if it could not be saved.", **cli.a_net()),
    force=cli.flag("Replace an existing file."),
)
def predict(o: Any) -> None:
    """Predict any number of inputs with a saved model, in bounded memory.

    equitangents predict model --data new_tiles --out predictions.csv

    equitangents predict model --data new.npy --out predictions.npz --std

    Finished batches are kept in the folder OUT.parts until the file is written, so the same command resumes after an
    interruption.
    """
    table = Path(o.out) if o.out.lower().endswith(".csv") else None
    files: tuple[str, ...] = ()
    if table is not None and table.exists() and not o.force:
        raise InvalidArgumentError("--out", o.out, "a new file", "--force replaces one")
    with cli.stages() as stage:
        stage(f"reading {o.data}")
        from equitangents.scale.reading import read_inputs

        if images.are_images(o.data):
            folder = images.read_like(o.data, o.model, o.skip_bad, stage)
            x, files = folder.x, folder.files
        else:
            x = read_inputs("data", o.data, o.array)
            images.check_array(x, o.model)
            if table is not None:
                raise InvalidArgumentError("--out", o.out, "for arrays a name that ends in .npy or .npz")
        stage("importing JAX")
        from equitangents.ensembles import predict_to_file
        from equitangents.ensembles.infinite.saving import about_model
        from equitangents.ensembles.streaming import write_table
        from equitangents.foreign_files import read_arrays

        calibrated = table is not None and about_model(o.model)["temperature"] is not None
        if o.min_confidence is not None and table is None:
            raise InvalidArgumentError("--min-confidence", o.min_confidence, "a table, --out NAME.csv")
        if o.min_confidence is not None and not calibrated:
            raise InvalidArgumentError(
                "model", str(o.model), "calibrated probabilities, for --min-confidence", "fit it again by --calibrate"
            )
    calibrated = calibrated and o.time is None
    # the temporary file of a table is not announced
    with cli.stages() as stage, nullcontext() if table else cli.announced("equitangents"):
        stage(f"predicting {x.shape[0]:,} inputs")
        left = lambda seconds: f", {duration(seconds)} left" if math.isfinite(seconds) else ""
        path = predict_to_file(
            o.model,
            x,
            o.out if table is None else str(table.with_name(f".{table.name}.npz")),
            return_std=o.std or (table is not None and not calibrated),
            probabilities=calibrated,
            progress=lambda done, count, seconds: stage(f"predicting {done / count:.0%}{left(seconds)}"),
            force=o.force or table is not None,
            net=None if o.net is None else cli.network(o.net),
            **{name: getattr(o, name) for name in ("time", "rows", "shard")},
        )
    if not path.exists():  # other parts are missing
        typer.echo(f"{o.out}: part {o.shard[0]}/{o.shard[1]} is done; the last part writes the file")
        return
    if table is not None:
        write_table(table, files, read_arrays("out", str(path)), o.min_confidence)
        path.unlink()
    typer.echo(f"{o.out}: predictions of {x.shape[0]:,} inputs")
