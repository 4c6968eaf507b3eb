"""How far a long measurement is: a bar on stderr, a function of one's own, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Step = Callable[[float, float], None]


@contextlib.contextmanager
def steps(title: str, progress: bool | Step) -> Iterator[Step]:
    """A function `step(done, total)`; `progress` is True for a bar, False for nothing, or is called itself."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
