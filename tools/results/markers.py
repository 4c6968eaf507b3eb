"""Numbers of published runs between markers of Markdown: `<!-- claims{2}.number -->0.47 %<!-- -->`.

A marker is `<!-- [RUN: ]PATH[ as FORMAT] -->TEXT<!-- -->`; RUN is the page's own run unless named. PATH starts at

- `claims{i}`: `number`, `interval`, `outcome`, `bound`, `stated` as cells, `value`, `low`, `high` as numbers, and
  `numbers{label}` with `number`, `interval`, `value`, `low`, `high` of one of its family;
- `tables{i}{row}{column}`: a cell of a table of the report, by labels or positions;
- `settings{key}`, and the other fields of `run.json`.

A path that ends at `source`, `ours` or `check` (claims of a kind) or at `tables{i}` stands for a whole table. FORMAT is
a format specification of Python (`.0%`), or `number` for the first number of a cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents.report import format_number
from equitangents_studies.claim import EXACT, KINDS, Claim
from tools.results.record import Record

_MARKED = re.compile(
    r"(<!-- (?:(?P<run>[\w-]+): )?(?P<path>\w+(?:\.\w+|\{[^}]*\})*)(?: as (?P<spec>\S+))? -->)(?:.*?)<!-- -->", re.S
)
_STEP = re.compile(r"\{([^}]*)\}|(\w+)")
_SPECIAL = re.compile(r"([\\`*$<|])")

Find = Callable[[str], Any]


def filled(text: str, find: Mapping[str, Find], run: str = "") -> str:
    """`text` with what its markers name, of the runs in `find`, `run` where a marker names none.

    Raises InvalidArgumentError for a marker that names nothing.
    """

    def value(found: re.Match[str]) -> str:
        try:
            value = _shown(find[found["run"] or run](found["path"]), found["spec"])
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise InvalidArgumentError(f"{run}: the marker {found[1]} names nothing: {error!r}") from error
        return f"{found[1]}{value}<!-- -->"

    return _MARKED.sub(value, text)


def finder(record: Record) -> Find:
    """What a path leads to in the record of a run."""
    claims = [Claim.from_dict(kept) for kept in record.claims]
    start: dict[str, Any] = {
        **vars(record),
        "claims": [_cells(claim) for claim in claims],
        **{kind: _claims([c for c in claims if c.kind == kind], kind == "source") for kind in KINDS},
    }

    def find(path: str) -> Any:
        value: Any = start
        for step in _STEP.finditer(path):
            value = _at(value, step[2] if step[1] is None else step[1])
        return value

    return find


def plain(text: str) -> str:
    """Text in which Markdown finds no marks.

    >>> plain("2 * x < $3")
    '2 \\\\* x &lt; \\\\$3'
    """
    return _SPECIAL.sub(lambda m: "&lt;" if m[1] == "<" else f"\\{m[1]}", " ".join(text.split()))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], sides: str = "---") -> str:
    """A table of cells that are Markdown, on lines of its own; `sides` aligns all columns but the first."""
    lines = (header, ["---", *[sides] * (len(header) - 1)], *rows)
    return "\n\n{}\n\n".format("\n".join("| " + " | ".join(line) + " |" for line in lines))


def _at(value: Any, step: str) -> Any:
    """The entry of a mapping, a sequence or a table of the report, by name or position."""
    if isinstance(value, Mapping) and "header" in value:  # a table: its rows by their first cells
        firsts = [row[0] for row in value["rows"]]
        row = value["rows"][firsts.index(step) if step in firsts else int(step)]
        names: list[str] = value["header"]
        return {name if names.index(name) == i else str(i): row[i] for i, name in enumerate(names)}
    if isinstance(value, Mapping):
        return value[step] if step in value else list(value.values())[int(step)]
    return value[int(step)]


def _shown(value: Any, spec: str | None) -> str:
    if isinstance(value, Mapping) and "header" in value:
        cells = [[plain(cell) for cell in row] for row in (value["header"], *value["rows"])]
        return table(cells[0], cells[1:], "---:")
    if spec == "number":
        return str(value).split()[0]
    if spec is not None:
        return format(float(value), spec).replace("%", " %").replace("-", "−")
    if not isinstance(value, str | int):
        raise ValueError("neither text nor a whole number; it needs a format")
    return str(value)


def _cells(c: Claim) -> dict[str, Any]:
    cell = lambda x, unit="": f"{x} {unit}".strip()
    numbers = {
        label: {
            "number": cell(format_number(e.value, e.interval, c.bound), c.unit),
            "interval": "{} to {}".format(*(format_number(end, e.interval, c.bound) for end in e.interval)),
            "value": e.value, "low": e.low, "high": e.high,
        }
        for label, e in c.numbers.items()
    }  # fmt: skip
    low, high = c.interval
    return {
        "number": c.number_cell, "interval": c.interval_cell, "outcome": c.outcome, "bound": c.bound_cell,
        "stated": c.stated, "shown": c.shown, "value": c.number, "low": low, "high": high, "numbers": numbers,
    }  # fmt: skip


def _claims(claims: Sequence[Claim], source: bool) -> str:
    """The table of claims of one kind; those of a source with their place and the source's number."""
    small = lambda text: f"<br><small>{plain(text)}</small>" if text else ""
    rows = [
        [
            plain(c.statement) + small(c.place if source else ""),
            c.outcome,
            plain(c.number_cell) + small(c.shown),
            plain(c.interval_cell) + small("" if c.covers in (EXACT, c.interval_cell) else c.covers),
            c.bound_cell,
            *([plain(c.stated or "–")] if source else []),
        ]
        for c in claims
    ]
    header = ["claim" if source else "question", "outcome", "number", "interval", "bound"]
    return table([*header, *(["the source’s"] if source else [])], rows) if rows else ""
