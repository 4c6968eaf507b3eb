"""`equitangents predict`: predictions of a saved model for any number of inputs, from files to a file."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from equitangents.cli.choosing import check_confidence
from equitangents.cli.common import PLACE, Shard, announced, goes_on, kept, part, stages
from equitangents.cli.completion import net_name, there
from equitangents.formatting import duration

_BAR = 20  # characters


def predict(
    model: Annotated[Path, typer.Argument(callback=there, help="Folder in which `equitangents fit` saved a model.")],
    data: Annotated[
        str,
        typer.Option(
            metavar=PLACE,
            callback=there,
            help="Inputs: .npy (read as needed), .npz with x, Zarr, or a folder of images.",
        ),
    ],
    out: Annotated[str, typer.Option(help="The file that is written: .npy or .npz; of images also .csv.")],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and name them.")
    ] = False,
    array: Annotated[str, typer.Option(help="Which array of an .npz file or Zarr group.")] = "x",
    std: Annotated[
        bool, typer.Option("--std", help="Standard deviations, too; of a classifier probabilities as well.")
    ] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="In a table .csv leave labels empty whose probability is lower.")
    ] = None,
    time: Annotated[float | None, typer.Option(help="Another training time than the model's.")] = None,
    rows: Annotated[int | None, typer.Option(help="Inputs predicted, and kept, at once.")] = None,
    shard: Shard = None,
    net: Annotated[
        str | None,
        typer.Option(callback=net_name, help="package.module:object, where the network could not be saved."),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Remove what was predicted first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Predict all inputs of a file, in memory that does not grow with their number.

    What is predicted stays in the folder OUT.parts: the same command goes on after any interruption, and the file
    appears whole in the end.
    """
    from equitangents.cli import images, networks

    check_confidence(min_confidence)
    mine, table = part(shard), Path(out) if out.lower().endswith(".csv") else None
    files: tuple[str, ...] = ()
    if table is not None and table.exists() and not force:
        raise typer.BadParameter(f"{out!r} is there; --force replaces it", param_hint="--out")
    with stages() as stage:
        stage(f"reading {data}")
        from equitangents.scale.reading import read_inputs

        if images.are_images(data):
            found = images.read_like(data, model, skip_bad, stage)
            x, files = found.x, found.files
        else:
            x = read_inputs("data", data, array)
            images.check_array(x, model)
            if table is not None:
                raise typer.BadParameter(
                    f"{out!r}; of arrays expected a name that ends in .npy or .npz", param_hint="--out"
                )
        stage("loading what computes kernels")
        if min_confidence is not None:
            if table is None:
                raise typer.BadParameter("it is for a table; give --out NAME.csv", param_hint="--min-confidence")
            images.check_calibrated(model)
        from equitangents.ensembles import predict_to_file
    given = None if net is None else networks.network(net, None, 1.0, 0.0)
    probabilities = table is not None and time is None and images.is_calibrated(model)
    file = out if table is None else str(table.with_name(f".{table.name}.npz"))
    within = None if table is None else Path(file).name  # is gone in the end
    with stages() as stage, kept(lambda: _in_parts(file, restart)), ExitStack() as lines:
        predicting = lambda: stage(f"predicting {x.shape[0]:,} inputs")
        lines.enter_context(announced("equitangents", True, within, predicting))
        predicting()
        path = predict_to_file(
            model,
            x,
            file,
            time=time,
            return_std=std or (table is not None and not probabilities),
            probabilities=probabilities,
            progress=_progress(stage),
            rows=rows,
            shard=mine,
            restart=restart,
            force=force or table is not None,
            net=given,
        )
    if not path.exists():  # other parts are missing
        typer.echo(f"{out}: part {shard} is done; the file is made with the last part")
        return
    if table is not None:
        from equitangents.array_files import read_arrays

        images.write_table(table, files, read_arrays("out", str(path)), min_confidence)
        Path(str(path)).unlink()
    typer.echo(f"{out}: predictions of {x.shape[0]:,} inputs")


def _progress(stage: Callable[[str], None]) -> Callable[[int, int, float], None]:
    """A bar of the chunks that are predicted, and the time that is left."""

    def report(done: int, count: int, seconds: float) -> None:
        left = f", {duration(seconds)} left" if math.isfinite(seconds) else ""
        bar = "█" * (_BAR * done // count)
        stage(f"predicting {bar:░<{_BAR}} {done / count:.0%}{left}")

    return report


def _in_parts(file: str, restart: bool) -> str:
    """What is kept of predictions that were interrupted."""
    parts = f"{file}.parts"
    kept = f"what was predicted is kept in {parts}: {goes_on(restart)}"
    return kept if Path(parts).exists() else f"nothing of {file} was predicted"
