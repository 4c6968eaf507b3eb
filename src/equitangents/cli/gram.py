"""`equitangents gram`: the kernel matrix of many inputs, tile by tile on disk, by any number of workers."""

from __future__ import annotations

from typing import Any

import typer

from equitangents.cli import options as cli
from equitangents.errors import InvalidArgumentError


@cli.command(
    data=cli.path("Inputs: .npy (read from disk as needed), .npz with x, or a Zarr array.", ...),
    out=cli.option(str, "Folder of the store. Needed unless --estimate is given.", metavar=cli.PLACE),
    net=cli.option(str, f"Network: {cli.NETS}.", "mlp", metavar="NET", **cli.a_net()),
    **cli.SHAPE,
    against=cli.path("Inputs of the columns, if they are not those of the rows."),
    precision=cli.PRECISION,
    standardise=cli.flag(
        "Standardise the inputs as `equitangents fit` does, which can then read the store. The scale is that of all "
        "of --data, so do not add rows later."
    ),
    tile=cli.option(int, "Rows and columns of a tile of a new store."),
    workers=cli.option(int, "Worker processes on this machine.", min=1),
    shard=cli.SHARD,
    estimate=cli.flag("Print the time and memory needed, and stop."),
    check=cli.flag("Verify the checksums of the store, and recompute damaged tiles."),
)
def gram(o: Any) -> None:
    """Compute NNGP and NTK between many inputs into a Zarr store on disk.

    equitangents gram --data x.npy --net cnn --out kernel.zarr

    equitangents gram --data x.npy --net cnn --out kernel.zarr --shard 3/64

    Finished tiles are kept. After an interruption, or when rows were added to the data, the same command computes
    only the missing tiles, on any machine that sees the folder.
    """
    from equitangents.ensembles.standardisation import fitted_standardisation
    from equitangents.precision import working_dtype
    from equitangents.scale import GramStore
    from equitangents.scale.reading import read_inputs
    from equitangents.scale.record import opened
    from equitangents.validation import check_array

    x1: Any = opened("data", read_inputs("data", o.data))
    x2: Any = None if o.against is None else opened("against", read_inputs("against", o.against))
    net = cli.network(o.net, o.depth, o.w_std, o.b_std)
    if o.standardise:
        x1, x2 = check_array("data", x1[:]), None if x2 is None else check_array("against", x2[:])
        scaling = fitted_standardisation(x1, net, None)
        typer.echo(f"inputs are standardised: {scaling.how}", err=True)
        x1, x2 = scaling(x1), None if x2 is None else scaling(x2)
    if o.estimate:
        precision = o.precision or working_dtype(x1, x2).name
        rows = None if x2 is None else x2.shape[0]
        typer.echo(str(net.kernel_cost(tuple(x1.shape[1:]), x1.shape[0], rows, precision)))
        return
    if o.out is None:
        raise InvalidArgumentError("--out", None, "a folder for the store")
    with cli.announced("equitangents"):
        store = GramStore(o.out, net, x1, x2, tile=o.tile, precision=o.precision)
        store.compute(o.workers, shard=o.shard, check=o.check)
    total, missing = len(store.tiles), store.missing
    done = "" if o.shard is None else f"part {o.shard[0]}/{o.shard[1]} is done; "
    state = f"{missing:,} of {total:,} tiles are missing" if missing else "complete"
    shape = " × ".join(f"{n:,}" for n in store.shape)
    typer.echo(f"{store.path}: {done}{state}; arrays ntk and nngp, {shape}, {store.ntk.dtype}")
