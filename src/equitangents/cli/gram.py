"""`equitangents gram`: the kernel matrix of many inputs, tile by tile on disk, by any number of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from equitangents.cli import networks
from equitangents.cli.common import PLACE, Precision, Shard, announced, goes_on, kept, part, stages
from equitangents.cli.completion import GROUPS, group_name, there

if TYPE_CHECKING:
    from equitangents._types import ArrayLike
    from equitangents.kernels.cost import CostedKernel
    from equitangents.scale import GramStore


def gram(
    data: Annotated[
        str,
        typer.Option(
            metavar=PLACE, callback=there, help="Inputs: .npy (read from disk as needed), .npz with x, or a Zarr array."
        ),
    ],
    out: Annotated[
        str | None, typer.Option(metavar=PLACE, help="Folder of the store; needed unless --estimate is given.")
    ] = None,
    net: networks.Net = "mlp",
    depth: networks.Depth = None,
    w_std: networks.WStd = networks.W_STD,
    b_std: networks.BStd = 0.1,
    against: Annotated[
        str | None,
        typer.Option(
            metavar=PLACE, callback=there, help="Other inputs for the columns; without it the matrix is symmetric."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="One matrix for each element of a group that moves the columns: C4, D4, S5, …",
            autocompletion=GROUPS,
            callback=group_name,
        ),
    ] = None,
    precision: Precision = None,
    standardise: Annotated[
        bool,
        typer.Option(
            "--standardise",
            help="Of inputs that are shifted and scaled as `equitangents fit` does, so that it reads the store; by all "
            "of --data, so that rows that are added later change the others.",
        ),
    ] = False,
    tile: Annotated[int | None, typer.Option(help="Side of a tile of a new store.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes of this machine.")] = None,
    shard: Shard = None,
    restart: Annotated[bool, typer.Option("--restart", help="Remove all tiles first, in place of going on.")] = False,
    estimate: Annotated[bool, typer.Option("--estimate", help="Print time, disk and memory; make nothing.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the store, compute --sample tiles again, and repair.")
    ] = False,
    sample: Annotated[int, typer.Option(help="Tiles that --verify computes again.")] = 16,
) -> None:
    """Compute NNGP and NTK between many inputs into a Zarr store on disk.

    What is complete stays: the same command goes on after any interruption, on any machine that sees the folder, and
    computes what is new where rows were added to the data.
    """
    mine = part(shard)
    with stages() as stage:
        stage("loading what computes kernels")
        from equitangents.scale import GramStore
        from equitangents.validation import check_whole

    x1, x2 = _inputs("data", data), None if against is None else _inputs("against", against)
    network = networks.network(net, depth, w_std, b_std)
    if standardise:
        x1, x2 = _standardised(network, x1, x2, group)
    if estimate:
        if group is not None:
            raise typer.BadParameter("--estimate is for one matrix; leave --group out")
        _print_estimate(network, x1, x2, precision, tile)
        return
    if out is None:
        raise typer.BadParameter("a folder for the store is needed", param_hint="--out")
    if verify:
        _check_is_there(out, {"data": x1, "against": x2})
    with announced("equitangents", err=True):
        action = None if group is None else _action(group, x1)
        store = GramStore(out, network, x1, x2, action=action, tile=tile, precision=precision)
        executor = None if workers is None else check_whole("workers", workers, 1)
        if verify:
            typer.echo(str(store.verify(sample, executor=executor)))
            return
        with kept(lambda: _on_disk(store, restart)):
            store.compute(executor, not restart, shard=mine)
    _say(store, shard)


def _on_disk(store: GramStore, restart: bool) -> str:
    """What is kept of a matrix that was interrupted."""
    total = len(store.tiles)
    return f"{total - store.missing:,} of {total:,} tiles are kept in {store.path}: {goes_on(restart)}"


def _say(store: GramStore, shard: str | None) -> None:
    total, missing = len(store.tiles), store.missing
    shape = " × ".join(f"{n:,}" for n in store.shape)
    state = f"{missing:,} of {total:,} tiles are missing" if missing else "complete"
    if shard is not None:
        state = f"part {shard} is done, and {state if missing else 'the store is complete'}"
    typer.echo(f"{store.path}: {state}; arrays ntk and nngp, {shape}, {store.ntk.dtype}")


def _check_is_there(out: str, given: dict[str, Any]) -> None:
    """Raise unless there is a store that has all rows: what only checks makes no store, and adds no rows to one."""
    from equitangents.errors import InvalidArgumentError
    from equitangents.scale.record import read_record
    from equitangents.tiles.place import place

    record = read_record(place("out", out))
    if record is None:
        raise InvalidArgumentError(f"out is {out!r}, which holds no store; --verify checks one that is there")
    for (name, x), stored in zip(given.items(), record.inputs.values(), strict=False):
        if x is not None and x.shape[0] > stored.rows[-1]:
            raise InvalidArgumentError(
                f"--{name} has {x.shape[0]:,} rows and the store in {out} {stored.rows[-1]:,}; give the inputs that it "
                "was made of, or add the others without --verify first"
            )


def _inputs(name: str, path: str) -> Any:
    from equitangents.scale.reading import read_inputs

    return read_inputs(name, path)


def _standardised(net: Any, x1: ArrayLike, x2: ArrayLike | None, group: str | None) -> Any:
    """Both, in memory, by the mean and deviation of the first."""
    from equitangents.ensembles.standardisation import fitted_standardisation

    whole = x1[:]
    units = fitted_standardisation(whole, net, None if group is None else _action(group, whole))
    typer.echo(f"inputs are standardised: {units.how}", err=True)
    return units(whole), None if x2 is None else units(x2[:])


def _action(group: str, x: ArrayLike) -> Any:
    from equitangents.actions import as_action

    return as_action("group", group, tuple(x.shape))


def _print_estimate(
    net: CostedKernel, x1: ArrayLike, x2: ArrayLike | None, precision: str | None, tile: int | None
) -> None:
    from equitangents.precision import working_dtype
    from equitangents.scale import estimate

    shape, n2 = tuple(x1.shape[1:]), None if x2 is None else x2.shape[0]
    cost = estimate(net, shape, x1.shape[0], n2, precision=precision or working_dtype(x1, x2).name, tile=tile)
    typer.echo(str(cost))
