"""`equitangents cache`: the kernels that studies keep on disk: where, how many, and their end."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(clear: Annotated[bool, typer.Option("--clear", help="Remove all kernels that are kept.")] = False) -> None:
    """Show where studies keep kernels for later runs, and how much; with --clear, remove them.

    EQUITANGENTS_CACHE names another folder.
    """
    from equitangents.formatting import memory_size
    from equitangents.kernels import KernelStore

    store = KernelStore()
    if clear:
        files, size = store.clear()
        typer.echo(f"removed {files} file{'' if files == 1 else 's'}, {memory_size(size)}, from {store.folder}")
        return
    files = len(store.files)
    typer.echo(
        f"{files} file{'' if files == 1 else 's'} of kernels, {memory_size(store.size)} of at most "
        f"{memory_size(store.limit)}, in {store.folder}"
    )
