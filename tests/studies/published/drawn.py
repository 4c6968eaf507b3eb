"""A study of a moment whose finished run the tests here publish."""

from __future__ import annotations

import json

from equitangents import studies
from equitangents.report import Table
from equitangents_studies.framework import drawing
from studies.small import Small

NAME = "drawn"
INFO = studies.StudyInfo(NAME, "A drawn study", "nobody, arXiv 1", ("quick",), "Is it <large>?", "none")


class Drawn(Small):
    """With a figure and a table in its report."""

    def present(self, settings, y, folder):
        with drawing.panels(folder, "draws", caption="Draws * of y.", alt="Numbers in their order") as drawn:
            drawn[0].plot(y)
        table = Table("Of 4.", ["", "OSP"], [["ensemble | mean", "3.9 (3.8 to 4.0)"]])
        return [drawn.figure, table]


def page(root, name=NAME):
    return root / "docs" / "results" / f"{name}.md"


def edit(root, name=NAME, **changes):
    """Change fields of the record of a published run."""
    path = root / "docs" / "results" / name / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
