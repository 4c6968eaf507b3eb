"""A study of a moment whose finished run the tests here publish, and what they look at."""

from __future__ import annotations

import json

from equitangents import studies
from equitangents.report import Section, Table
from equitangents_studies.framework import drawing
from equitangents_studies.framework.study import Presentation
from studies.small import Small

NAME = "drawn"
INFO = studies.StudyInfo(NAME, "A drawn study", "nobody, arXiv 1", ("quick",), "Is it <large>?", "none")


class Drawn(Small):
    """With a figure and a table in its report."""

    def present(self, settings, y, folder):
        with drawing.panels(folder, "draws", caption="Draws * of y.", alt="Numbers in their order") as drawn:
            drawn[0].plot(y)
        table = Table("Of 4.", ["", "OSP"], [["ensemble | mean", "3.9"]])
        sections = [Section("Numbers < 4", ["Drawn for $1."], [drawn.figure, table])]
        return Presentation({"numbers": {"y": y}}, sections, {"Members": "3"})


def everything(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def published(root, name=NAME):
    return (root / "docs" / "results" / f"{name}.md").read_text()


def forget(folder, *keys):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in config.items() if key not in keys}))
