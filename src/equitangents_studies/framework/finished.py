"""A finished run, read from its folder: verdicts and how long it took. Nothing is written."""

from __future__ import annotations

from pathlib import Path

from equitangents.extending import UNREADABLE, read_json
from equitangents.report import Verdict


def finished(path: Path) -> tuple[tuple[Verdict, ...], float] | None:
    """The verdicts of the run in `path` and the seconds that it took; None where no whole run is finished there."""
    if not (path / "report.html").is_file() or (path / ".new").exists():
        return None
    try:
        config, verdicts = (read_json((path / f"{n}.json").read_text(encoding="utf-8")) for n in ("config", "verdicts"))
        if config["sessions"][-1]["ended"] != "finished":
            return None
        return tuple(map(Verdict.from_dict, verdicts)), float(config["seconds"])
    except UNREADABLE:
        return None
