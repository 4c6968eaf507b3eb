"""What functions of this subpackage share: checks of arguments, progress of long measurements, tables as text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from equitangents.errors import InvalidArgumentError
from equitangents.extending import check_number

Step = Callable[[float, float], None]


@contextlib.contextmanager
def steps(title: str, progress: bool | Step) -> Iterator[Step]:
    """A function `step(done, total)`; `progress`: True for a bar on stderr, False for nothing, or called itself."""
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


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise InvalidArgumentError unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(name, value, list(choices))


def check_ridge(ridge: float) -> float:
    """`ridge` as a finite number ≥ 0, or an error."""
    check_number("ridge", ridge, "a finite number ≥ 0", lambda r: r >= 0)
    return float(ridge)


def lines_of(table: Mapping[str, Sequence[object]]) -> str:
    """Columns by name as lines of text, numbers to four digits.

    >>> print(lines_of({"n": [10, 20], "error": [0.5, 0.123456]}))
     n   error
    10     0.5
    20  0.1235
    """
    cells = [
        [name, *(f"{v:.4g}" if isinstance(v, float) else str(v) for v in column)] for name, column in table.items()
    ]
    widths = [max(map(len, column)) for column in cells]
    rows = zip(*cells, strict=True)
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def model_name(model: object) -> str:
    """What results call a model: its name, if it has one, else that of its type."""
    name = getattr(model, "name", None)
    if isinstance(name, str):
        return name
    return str(getattr(model, "__name__", type(model).__name__))
