"""What `python -m tools.results` makes of all published runs: findings, paper, the table of the README."""

from __future__ import annotations

import json
import re

from tools.results import overview
from tools.results.__main__ import main
from tools.results.record import Record

from equitangents_studies.comparison.page import HEADER
from equitangents_studies.verdict import UNDECIDED
from studies.published.drawn import NAME, published


class TestWhatWasFound:
    """docs/results/findings.md: by work, every run's finding and the claims that do not hold."""

    def published(self, root, folder, **changes):
        claims = json.loads((folder / "verdicts.json").read_text())
        (folder / "verdicts.json").write_text(json.dumps([{**claims[0], **more} for more in changes.pop("claims")]))
        assert main([str(folder)], root) == 0
        path = root / "docs" / "results" / NAME / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        main([], root)
        return (root / "docs" / "results" / "findings.md").read_text()

    def test_a_work_has_its_runs_with_what_fails_why_and_what_decides(self, root, folder):
        source = {"source": "arXiv 2406.06504"}
        claims = [
            {**source, "claim": "It is so"},
            {**source, "claim": "It is not", "verdict": "fails", "why": "At width 64 it is 3. At 0.5 it is 4."},
            {**source, "claim": "It is open", "verdict": UNDECIDED, "repeated": 5, "further": 12},
            {**source, "claim": "Ours", "origin": "ours", "verdict": "fails"},
        ]
        page = self.published(root, folder, claims=claims, title="Found.", summary="1, not 2.", seconds=600.0)
        assert "## Equivariant Neural Tangent Kernels (Misof, Kessel & Gerken 2024, arXiv 2406.06504)" in page
        assert f"- [Found.]({NAME}.md)\n" in page
        assert "1, not 2." not in page
        assert page.count("Of 3 claims: 1 hold, 1 fail or differ, 1 undecided.") == 2
        assert "    - ✗ fails: It is not (" in page
        assert "At width 64 it is 3." in page
        assert "At 0.5" not in page
        assert "12 more, at most about 24 min, would decide it" in page
        assert "the claims that differ or are open, each once" in page.partition("## ")[0]
        assert "It is so" not in page
        assert "Ours" not in page

    def test_one_setting_that_tells_a_run_apart_where_the_number_is_met_is_what_it_depends_on(self, root, folder):
        (claim, *_) = json.loads((folder / "verdicts.json").read_text())
        claim |= {"stated": "7.7 ± 0.3", "claim": "So many", "why": "Noise. More noise."}
        results = root / "docs" / "results"

        def publish(variant, verdict, difference=None, **settings):
            apart = None if difference is None else {"value": difference, "interval": [difference] * 2}
            (folder / "verdicts.json").write_text(json.dumps([{**claim, "verdict": verdict, "difference": apart}]))
            assert main([str(folder), *(["--variant", variant] if variant else [])], root) == 0
            path = results / (f"{NAME}-{variant}" if variant else NAME) / "run.json"
            record = json.loads(path.read_text())
            path.write_text(json.dumps({**record, "settings": {**record["settings"], "repetitions": "5", **settings}}))
            main([], root)
            return (results / "findings.md").read_text(), published(root)

        publish("", "fails", zero="border", pixels="14")
        found, page = publish("grey", "holds", zero="mean", pixels="14", repetitions="7")
        assert "It depends on what fills the corners of turned images: with all else the same, in [" in page
        met = "source: 7.7 ± 0.3). It depends on what fills the corners of turned images; met with another: ["
        assert met in found
        assert "Noise. More noise." in page
        for others in ({"zero": "mean", "pixels": "28"}, {"zero": "border", "pixels": "14", "seed": "3"}):
            found, page = publish("grey", "holds", **others)
            assert "Noise. With other settings it agrees: [" in found
            assert "It depends" not in found + page
        found, _ = publish("grey", "holds", zero="border", pixels="none")
        assert "It depends on the size" in found
        assert found.count("Of 2 claims: 1 hold, 1 fail or differ.") == 2
        assert "It depends" not in publish("grey", "fails", zero="border", pixels="none")[0]
        found, _ = publish("", "holds", zero="border", pixels="14")
        assert found.count("Of 2 claims: 1 hold, 1 fail or differ.") == 2
        found, _ = publish("grey", "holds", zero="mean", pixels="14")
        assert found.count("Of 1 claims: 1 hold.") == 2, "the same number of the same claim counts once"
        publish("", "fails", zero="border", pixels="14", difference=-0.8)
        between = "the source’s number lies between this one and another with all else the same, in ["
        for apart, expected in ((1.3, True), (-0.4, False)):
            found, page = publish("grey", "fails", zero="mean", pixels="14", difference=apart)
            assert ("; missed on the other side with another: [" in found) == (between in page) == expected
        publish("", UNDECIDED, zero="border", pixels="14")
        found, page = publish("grey", "holds", zero="border", pixels="14", repetitions="14")
        assert "More repetitions decide it: in [" in page
        assert "More repetitions decide it: [" in found
        assert found.count("Of 1 claims: 1 hold.") == 2
        found, _ = publish("grey", "holds", zero="mean", pixels="14", repetitions="14")
        assert "More repetitions" not in found
        assert found.count("Of 2 claims: 1 hold, 1 undecided.") == 2

    def test_a_number_that_is_not_met_says_how_it_came_out_in_runs_of_other_facts(self, root, folder):
        (claim, *_) = json.loads((folder / "verdicts.json").read_text())
        claim |= {"stated": "7.7 ± 0.3", "claim": "So many", "value": 6.9, "interval": [6.5, 7.3], "why": "Noise."}
        other = {**claim, "claim": "So many too", "value": 7.6, "interval": [7.5, 7.7], "verdict": "holds"}
        for variant, verdicts in (("", [{**claim, "verdict": "fails"}]), ("grey", [other, {**other, "stated": "8"}])):
            (folder / "verdicts.json").write_text(json.dumps(verdicts))
            assert main([str(folder), *(["--variant", variant] if variant else [])], root) == 0
        path = root / "docs" / "results" / f"{NAME}-grey" / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "facts": {"Members": "5 * 2"}}))
        main([], root)
        said = f"In [{NAME}-grey]({NAME}-grey.md) (5 \\* 2; So many too): 7.60, ✓ holds."
        assert f"<small>Noise.</small><br><small>{said}</small>" in published(root)
        found = (root / "docs" / "results" / "findings.md").read_text()
        assert f"source: 7.7 ± 0.3). Noise. With other settings it agrees: [7.60]({NAME}-grey.md)." in found
        assert "6.90" not in published(root, f"{NAME}-grey")
        again = {**json.loads(path.read_text()), "title": "Grey.", "claims": [{**other, "verdict": "fails"}]}
        path.write_text(json.dumps(again))
        main([], root)
        found = (root / "docs" / "results" / "findings.md").read_text()
        assert found.count("So many (") == 1
        assert f"Noise. With other settings it differs: [7.60]({NAME}-grey.md)." in found
        assert "[Grey.]" not in found
        assert "So many too (" not in found
        more = {**other, "verdict": "fails", "stated": "8"}
        path.write_text(json.dumps({**again, "claims": [*again["claims"], more]}))
        main([], root)
        found = (root / "docs" / "results" / "findings.md").read_text()
        assert f"- [Grey.]({NAME}-grey.md)\n    - ✗ fails: So many too (" in found

    def test_a_run_without_a_finding_lists_its_claims_and_one_of_another_work_stands_last(self, root, folder):
        page = self.published(root, folder, claims=[{"source": "arXiv 1910.01663", "claim": "It is so"}])
        assert "## Other works" in page
        assert "- ✓ holds: It is so (" in page


class TestThePaper:
    def test_has_the_finding_the_command_and_the_first_figure_of_a_works_run(self, root, folder, monkeypatch):
        monkeypatch.setattr(overview, "_HEADLINES", {NAME: "somebody2024"})
        assert main([str(folder)], root) == 0
        text = (root / "paper" / "paper.md").read_text("utf-8")
        assert re.search(r"\nOf \d+ claims: .* Each is in the documentation with its number and interval\.\n", text)
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
        assert "are trained on 1,200 of the 10,000 images" in readme
        assert readme.startswith("before\n")
        assert readme.endswith("\n\nafter\n")

    def test_is_refused_where_the_run_has_no_such_columns(self, root, capsys):
        self.comparison(root, HEADER[:3])
        assert main([], root) == 1
        assert "OSP, foreign images" in capsys.readouterr().err
