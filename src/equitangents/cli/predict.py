"""`equitangents predict`: predictions of a saved model for any number of inputs, from files to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equitangents.cli.announcements import announced
from equitangents.cli.files import PLACE


def predict(
    model: Annotated[Path, typer.Argument(help="Folder in which `equitangents fit` saved a model.")],
    data: Annotated[str, typer.Option(metavar=PLACE, help="Inputs: .npy (read as needed), .npz with x, or Zarr.")],
    out: Annotated[str, typer.Option(metavar=PLACE, help="The file that is written: .npy, .npz or .zarr.")],
    array: Annotated[str, typer.Option(help="Which array of an .npz file or Zarr group.")] = "x",
    std: Annotated[
        bool, typer.Option("--std", help="Standard deviations, too; of a classifier probabilities as well.")
    ] = False,
    time: Annotated[float | None, typer.Option(help="Another training time than the model's.")] = None,
    rows: Annotated[int | None, typer.Option(help="Inputs predicted, and kept, at once.")] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Only part I of N, I from 0 to N − 1: for job arrays.")
    ] = None,
    net: Annotated[
        str | None, typer.Option(help="package.module:object, where the network could not be saved.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Remove what was predicted first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Predict all inputs of a file, in memory that does not grow with their number.

    What is predicted stays in the folder OUT.parts: the same command goes on after any interruption, and the file
    appears whole in the end.
    """
    from equitangents.cli import networks
    from equitangents.cli.files import part
    from equitangents.ensembles import predict_to_file
    from equitangents.scale.reading import read_inputs

    mine = part(shard)
    x = read_inputs("data", data, array)
    given = None if net is None else networks.network(net, None, 1.0, 0.0)
    with announced("equitangents", err=True):
        path = predict_to_file(
            model,
            x,
            out,
            time=time,
            return_std=std,
            rows=rows,
            shard=mine,
            restart=restart,
            force=force,
            net=given,
        )
    if not path.exists():  # other parts are missing
        typer.echo(f"{out}: part {shard} is done; the file is made with the last part")
        return
    typer.echo(f"{out}: predictions of {x.shape[0]:,} inputs")
