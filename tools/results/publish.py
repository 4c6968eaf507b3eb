"""From the folder of a finished run to `docs/results/NAME/`: `run.json` and the drawings of its page, all small."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from equitangents.errors import InvalidArgumentError
from equitangents.files import atomic_file
from equitangents_studies import registry
from tools.results import small
from tools.results.record import Record, read

_BEGUN = """\
# {title}

{summary}

{figure}
<!-- source --><!-- -->

<!-- ours --><!-- -->

## Repeat it

```
{command}
```

[run.json]({name}/run.json) has every number, setting and version.
"""


def publish(folder: Path, results: Path, variant: str = "") -> Record:
    """Write the small files of a run below `results`, in place of those of an earlier one.

    Drawings are those that its page shows. A run without a page gets the beginnings of one, with its first drawing.

    Raises InvalidArgumentError for what `read` refuses and for a file that cannot be made small; nothing is written
    then.
    """
    record = read(folder, variant)
    place, page = results / record.name, results / f"{record.name}.md"
    there = place / "run.json"
    if there.is_file():
        record = replace(record, table_of=Record.from_json(there.read_text(encoding="utf-8")).table_of)
    text = "" if record.table_of else page.read_text(encoding="utf-8") if page.is_file() else _begun(record)
    contents = {"run.json": record.to_json().encode()}
    for name in re.findall(rf"\({record.name}/([\w-]+)\.(?:svg|png)\)", text):
        contents |= _drawing(folder / "figures", name)
    for name, content in contents.items():
        if len(content) > small.LIMIT:
            raise InvalidArgumentError(
                f"{name} of {folder} takes {len(content):,} bytes; what is published is at most {small.LIMIT:,}"
            )
    shutil.rmtree(place, ignore_errors=True)
    for name, content in contents.items():
        with atomic_file(place / name) as partial:
            partial.write_bytes(content)
    if text and not page.is_file():
        page.write_text(text, encoding="utf-8")
    return record


def _begun(record: Record) -> str:
    info = registry[record.study]
    figure = "".join(f"![{f['alt']}]({record.name}/{f['name']}.svg)\n" for f in record.figures[:1])
    return _BEGUN.format(
        title=info.title, summary=info.summary, figure=figure, command=record.command, name=record.name
    )


def _drawing(folder: Path, stem: str) -> dict[str, bytes]:
    """The file of a figure by its name: SVG, or its PNG where that is too large."""
    path, picture = folder / f"{stem}.svg", folder / f"{stem}.png"
    drawn = small.drawing(path.read_text(encoding="utf-8")).encode()
    if len(drawn) > small.LIMIT and picture.is_file() and picture.stat().st_size <= small.LIMIT:
        return {picture.name: small.picture(picture.read_bytes())}
    return {path.name: drawn}
