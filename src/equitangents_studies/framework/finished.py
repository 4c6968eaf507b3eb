"""A finished run, read from its folder: its summary, its verdicts and how long it took. Nothing is written."""

from __future__ import annotations

import html
import re
from pathlib import Path

from equitangents.extending import UNREADABLE, read_json
from equitangents.report import Verdict


def finished(path: Path) -> tuple[str, tuple[Verdict, ...], float] | None:
    """The summary and verdicts of the run in `path` and its seconds; None where no whole run is finished there."""
    if not (path / "report.html").is_file() or (path / ".new").exists():
        return None
    try:
        config, verdicts = (read_json((path / f"{n}.json").read_text(encoding="utf-8")) for n in ("config", "verdicts"))
        if config["sessions"][-1]["ended"] != "finished":
            return None
        said = re.search(r'<p class="summary">(.*?)</p>', (path / "report.html").read_text(encoding="utf-8"), re.S)
        summary = html.unescape(said[1]) if said else ""
        return summary, tuple(map(Verdict.from_dict, verdicts)), float(config["seconds"])
    except UNREADABLE:
        return None
