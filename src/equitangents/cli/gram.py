"""`equitangents gram`: the kernel matrix of many inputs, tile by tile on disk, by any number of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli import networks
from equitangents.cli.common import (
    PLACE,
    PRECISION,
    SHARD,
    announced,
    command,
    flag,
    goes_on,
    kept,
    option,
    stages,
)
from equitangents.cli.completion import there
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    from equitangents._types import ArrayLike
    from equitangents.kernels.cost import CostedKernel
    from equitangents.scale import GramStore


@command(
    (
        None,
        {
            "data": option(
                str,
                "Inputs: .npy (read from disk as needed), .npz with x, or a Zarr array.",
                ...,
                metavar=PLACE,
                callback=there,
            ),
            "out": option(str, "Folder of the store; needed unless --estimate is given.", metavar=PLACE),
            "net": networks.NET,
            **networks.SHAPE,
            "against": option(
                str, "Other inputs for the columns; without it the matrix is symmetric.", metavar=PLACE, callback=there
            ),
            "precision": PRECISION,
            "standardise": flag(
                "Of inputs that are shifted and scaled as `equitangents fit` does, so that it reads the store; by all "
                "of --data, so that rows that are added later change the others."
            ),
            "tile": option(int, "Side of a tile of a new store."),
            "workers": option(int, "Number of processes of this machine."),
            "shard": SHARD,
            "restart": flag("Remove all tiles first, in place of going on."),
            "estimate": flag("Print time, disk and memory; make nothing."),
            "verify": flag("Check the store, compute --sample tiles again, and repair."),
            "sample": option(int, "Tiles that --verify computes again.", 16),
        },
    )
)
def gram(o: Any) -> None:
    """Compute NNGP and NTK between many inputs into a Zarr store on disk.

    equitangents gram --data x.npy --net cnn --out kernel.zarr

    equitangents gram --data x.npy --net cnn --out kernel.zarr --shard 3/64

    What is complete stays: the same command goes on after any interruption, on any machine that sees the folder, and
    computes what is new where rows were added to the data.
    """
    with stages() as stage:
        stage("loading what computes kernels")
        from equitangents.scale import GramStore
        from equitangents.scale.reading import read_inputs
        from equitangents.validation import check_whole

    x1: Any = read_inputs("data", o.data)
    x2: Any = None if o.against is None else read_inputs("against", o.against)
    network = networks.network(o.net, o.depth, o.w_std, o.b_std)
    if o.standardise:
        x1, x2 = _standardised(network, x1, x2)
    if o.estimate:
        _print_estimate(network, x1, x2, o.precision, o.tile)
        return
    if o.out is None:
        raise InvalidArgumentError("--out", None, "a folder for the store")
    if o.verify:
        _check_is_there(o.out, {"data": x1, "against": x2})
    with announced("equitangents", err=True):
        store = GramStore(o.out, network, x1, x2, tile=o.tile, precision=o.precision)
        executor = None if o.workers is None else check_whole("workers", o.workers, 1)
        if o.verify:
            typer.echo(str(store.verify(o.sample, executor=executor)))
            return
        with kept(lambda: _on_disk(store, o.restart)):
            store.compute(executor, not o.restart, shard=o.shard)
    _say(store, o.shard)


def _on_disk(store: GramStore, restart: bool) -> str:
    """What is kept of a matrix that was interrupted."""
    total = len(store.tiles)
    return f"{total - store.missing:,} of {total:,} tiles are kept in {store.path}: {goes_on(restart)}"


def _say(store: GramStore, shard: tuple[int, int] | None) -> None:
    total, missing = len(store.tiles), store.missing
    shape = " × ".join(f"{n:,}" for n in store.shape)
    state = f"{missing:,} of {total:,} tiles are missing" if missing else "complete"
    if shard is not None:
        state = f"part {shard[0]}/{shard[1]} is done, and {state if missing else 'the store is complete'}"
    typer.echo(f"{store.path}: {state}; arrays ntk and nngp, {shape}, {store.ntk.dtype}")


def _check_is_there(out: str, given: dict[str, Any]) -> None:
    """Raise unless there is a store that has all rows: what only checks makes no store, and adds no rows to one."""
    from equitangents.scale.record import read_record
    from equitangents.tiles.place import place

    record = read_record(place("out", out))
    if record is None:
        raise InvalidArgumentError("out", out, "a folder with a store to verify")
    for (name, x), stored in zip(given.items(), record.inputs.values(), strict=False):
        if x is not None and x.shape[0] > stored.rows[-1]:
            raise InvalidArgumentError(
                name, x.shape[0], range(1, stored.rows[-1] + 1), "add rows without --verify first", verb="has rows,"
            )


def _standardised(net: Any, x1: ArrayLike, x2: ArrayLike | None) -> Any:
    """Both, in memory, by the mean and deviation of the first."""
    from equitangents.ensembles.standardisation import fitted_standardisation

    whole = x1[:]
    units = fitted_standardisation(whole, net, None)
    typer.echo(f"inputs are standardised: {units.how}", err=True)
    return units(whole), None if x2 is None else units(x2[:])


def _print_estimate(
    net: CostedKernel, x1: ArrayLike, x2: ArrayLike | None, precision: str | None, tile: int | None
) -> None:
    from equitangents.precision import working_dtype
    from equitangents.scale import estimate

    shape, n2 = tuple(x1.shape[1:]), None if x2 is None else x2.shape[0]
    cost = estimate(net, shape, x1.shape[0], n2, precision=precision or working_dtype(x1, x2).name, tile=tile)
    typer.echo(str(cost))
