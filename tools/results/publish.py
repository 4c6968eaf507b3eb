"""From the folder of a finished run to `docs/results/NAME/`: `run.json` and drawings as SVG, all small."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from equitangents.errors import InvalidArgumentError
from equitangents.files import whole_file
from tools.results import small
from tools.results.record import Record, read


def publish(
    folder: Path, results: Path, variant: str = "", taken_over: str = "", killed_copy: Path | None = None
) -> Record:
    """Write the small files of a run below `results`, in place of those of an earlier one.

    `taken_over` says what of it another run, or state of the code, computed; `killed_copy` is the folder of a run of
    the same settings that was killed and resumed.

    Raises InvalidArgumentError for what `read` refuses, for a copy that was never killed or has other settings or
    tables, and for a file that cannot be made small; nothing is written then.
    """
    record = read(folder, variant)
    place = results / record.name
    there = place / "run.json"
    before = Record.from_json(there.read_text(encoding="utf-8")) if there.is_file() else None
    record = record.written_as(before)
    copy_interrupted = None if killed_copy is None else _interrupted(killed_copy, folder, record)
    contents: dict[str, bytes] = {}
    for figure in record.figures:
        contents |= _drawing(folder / "figures", figure["name"])
    record = replace(record, files=list(contents), taken_over=taken_over or None, copy_interrupted=copy_interrupted)
    contents["run.json"] = record.to_json().encode()
    for name, content in contents.items():
        if len(content) > small.LIMIT:
            raise InvalidArgumentError(
                f"{name} of {folder} takes {len(content):,} bytes; what is published is at most {small.LIMIT:,}"
            )
    shutil.rmtree(place, ignore_errors=True)
    for name, content in contents.items():
        with whole_file(place / name) as partial:
            partial.write_bytes(content)
    return record


def _interrupted(copy: Path, folder: Path, record: Record) -> int:
    """How often the run in `copy` was killed and resumed, all tables of which are those of the run in `folder`."""
    other = read(copy, record.variant)
    if (other.study, other.settings) != (record.study, record.settings):
        raise InvalidArgumentError(f"{copy} holds a run of another study or of other settings than {folder}")
    if not other.interruptions:
        raise InvalidArgumentError(f"the run in {copy} was not interrupted, as far as it is recorded")
    tables = [{p.name: p.read_bytes() for p in (place / "results").glob("*.csv")} for place in (folder, copy)]
    if tables[0] != tables[1]:
        raise InvalidArgumentError(f"tables of {copy} differ from those of {folder}")
    return other.interruptions


def _drawing(folder: Path, stem: str) -> dict[str, bytes]:
    """The file of a figure by its name: SVG, or its PNG where that is too large; nothing where it is missing."""
    path, picture = folder / f"{stem}.svg", folder / f"{stem}.png"
    if not path.is_file():
        return {}
    drawn = small.drawing(path.read_text(encoding="utf-8")).encode()
    if len(drawn) > small.LIMIT and picture.is_file() and picture.stat().st_size <= small.LIMIT:
        return {picture.name: small.picture(picture.read_bytes())}
    return {path.name: drawn}
