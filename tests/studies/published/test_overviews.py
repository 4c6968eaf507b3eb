"""What `python -m tools.results` makes of all published runs: findings, paper, the table of the README."""

from __future__ import annotations

import json
import re

from tools.results import overview
from tools.results.__main__ import main
from tools.results.record import Record

from equitangents_studies.comparison.page import HEADER
from studies.published.drawn import NAME, edit


class TestWhatWasFound:
    """docs/results/findings.md: by work, every run's finding and the claims that do not hold."""

    def published(self, root, folder, *claims):
        (first, *_) = json.loads((folder / "claims.json").read_text())
        (folder / "claims.json").write_text(json.dumps([{**first, **more} for more in claims]))
        assert main([str(folder)], root) == 0
        edit(root, title="Found.")
        main([], root)
        return (root / "docs" / "results" / "findings.md").read_text()

    def test_a_work_has_its_runs_and_its_claims_that_do_not_hold(self, root, folder):
        of = lambda statement, low, **more: {
            "source": "arXiv 2406.06504", "statement": statement, "number": 1.0, "interval": [low, 2.0], "numbers": {},
            "bound": [0.5, None], **more,
        }  # fmt: skip
        page = self.published(
            root, folder, of("It is so", 0.7), of("It is not", 0.0, bound=[3.0, None], stated="7"),
            of("It is open", 0.0),
            of("Ours", 0.0, bound=[3.0, None], kind="ours"),
        )  # fmt: skip
        assert "## Equivariant Neural Tangent Kernels (Misof, Kessel & Gerken 2024, arXiv 2406.06504)" in page
        assert f"| [{NAME}]({NAME}.md) | Found. |" in page
        assert page.count("| 1 | 1 | 1 |") == 2
        assert f"| [{NAME}]({NAME}.md) | It is not | fails | 1.0 | 0.0 to 2.0 | 7 |" in page
        assert f"| [{NAME}]({NAME}.md) | It is open | undecided |" in page
        assert "It is so" not in page
        assert "Ours" not in page

    def test_a_run_of_another_work_stands_last(self, root, folder):
        page = self.published(root, folder, {"source": "arXiv 1910.01663", "statement": "It is so"})
        assert "## Other works" in page


class TestThePaper:
    def test_has_the_finding_the_command_and_the_first_figure_of_a_works_run(self, root, folder, monkeypatch):
        monkeypatch.setattr(overview, "_HEADLINES", {NAME: "somebody2024"})
        assert main([str(folder)], root) == 0
        text = (root / "paper" / "paper.md").read_text("utf-8")
        assert "[@somebody2024]" in text
        assert f"`equitangents reproduce {NAME}" in text
        assert re.search(rf"!\[.*\]\(\.\./docs/results/{NAME}/.*\.svg\)", text)


class TestTheTableOfTheReadme:
    def comparison(self, root, header):
        row = ["ensemble", *(str(i) for i in range(len(header) - 1))]
        table = {"kind": "table", "caption": "Of 4.", "header": list(header), "rows": [row]}
        section = {"title": "All contenders", "text": [], "shown": [table]}
        words = {"study": "comparison", "variant": "", "preset": "desk", "title": "T", "summary": "S.", "date": None}
        none = {"claims": [], "versions": {}, "machines": [], "files": []}
        none["settings"] = {"kernel_images": "1200", "train_images": "10000"}
        times = {"seconds": 1.0, "processor_seconds": None, "interruptions": None}
        facts = {"Data": "Fashion-MNIST, 14×14", "Group": "C4, pixels move to pixels", "Seed": "0"}
        record = Record(
            name="comparison", facts=facts, sections=[section], command="equitangents …", **words, **none, **times
        )
        place = root / "docs" / "results" / "comparison"
        place.mkdir(parents=True)
        (place / "run.json").write_text(record.to_json())

    def test_is_left_out_without_a_published_comparison(self, root, folder):
        before = (root / "README.md").read_text()
        main([str(folder)], root)
        assert (root / "README.md").read_text() == before

    def test_has_the_columns_that_the_study_writes(self, root):
        self.comparison(root, HEADER)
        assert main([], root) == 0
        readme = (root / "README.md").read_text()
        row = " | ".join(str(HEADER.index(name) - 1) for name in overview.README_COLUMNS)
        assert f"|  | {' | '.join(overview.README_COLUMNS)} |" in readme
        assert f"| ensemble | {row} |" in readme
        assert "Fashion-MNIST, 14×14" in readme
        assert readme.startswith("before\n")
        assert readme.endswith("\n\nafter\n")

    def test_is_refused_where_the_run_has_no_such_columns(self, root, capsys):
        self.comparison(root, HEADER[:3])
        assert main([], root) == 1
        assert "OSP, foreign images" in capsys.readouterr().err
