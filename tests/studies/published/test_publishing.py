"""`python -m tools.results` changes the documentation of a repository and nothing else, or refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
from tools.results import small
from tools.results.__main__ import ROOT, main
from tools.results.page import plain
from tools.results.record import Record

from equitangents import studies
from studies.published.drawn import NAME, everything


class TestPublishing:
    def test_twice_changes_nothing(self, root, folder):
        main([str(folder)], root)
        first = everything(root)
        main([str(folder)], root)
        assert everything(root) == first
        assert main(["--check"], root) == 0

    def test_from_the_folder_alone(self, root, folder, tmp_path):
        main([str(folder)], root)
        first = everything(root)
        moved = folder.rename(tmp_path / "elsewhere")
        for part in ("stages", "checkpoints"):
            shutil.rmtree(moved / part, ignore_errors=True)
        main([str(moved)], root)
        assert everything(root) == first

    def test_brings_index_gallery_and_menu_up_to_date(self, root, folder):
        main([], root)
        assert "No run has been published yet" in (root / "docs/results/index.md").read_text()
        unpublished = lambda: (root / "docs/gallery.md").read_text().split("### Not published yet")[1]
        assert all(f"- `{name}`: " in unpublished() for name in studies.registry)
        assert main([str(folder)], root) == 0
        index = (root / "docs/results/index.md").read_text()
        outcomes = [claim["outcome"] for claim in json.loads((folder / "claims.json").read_text())]
        numbers = " | ".join(str(outcomes.count(v)) for v in ("holds", "undecided", "fails"))
        assert f"| [{NAME}]({NAME}.md) | A drawn study | {numbers} |" in index
        gallery = (root / "docs/gallery.md").read_text()
        assert f"`{NAME}`" not in unpublished()
        assert unpublished().count("\n- `") == len(studies.registry) - 1
        assert plain(Record.from_json((root / "docs/results" / NAME / "run.json").read_text()).summary) in gallery
        assert f"](results/{NAME}/draws.svg)" in gallery
        assert f"](results/{NAME}.md)" in gallery
        assert all(info.name in gallery for info in studies.registry.values())
        nav = (root / "mkdocs.yml").read_text()
        pages = "          - All runs: results/index.md\n          - What we found: results/findings.md\n"
        assert f"      - Results:\n{pages}          - Each run:\n              - {NAME}: results/{NAME}.md\n" in nav
        assert nav.endswith("  - Last: last.md\n")

    def test_a_variant_has_a_page_of_its_own(self, root, folder):
        assert main([str(folder)], root) == 0
        assert main([str(folder), "--variant", "C8"], root) == 0
        assert f"| [{NAME}-C8]({NAME}-C8.md) |" in (root / "docs/results/index.md").read_text()
        assert f"[report](results/{NAME}.md), [C8](results/{NAME}-C8.md)" in (root / "docs/gallery.md").read_text()

    def test_check_says_what_is_out_of_date_and_leaves_it(self, root, folder, capsys):
        main([str(folder)], root)
        page = root / "docs" / "results" / f"{NAME}.md"
        page.write_text("by hand")
        (page.parent / "gone.md").write_text("of a run that is not there")
        assert main(["--check"], root) == 1
        assert page.read_text() == "by hand"
        said = capsys.readouterr().out
        assert f"docs/results/{NAME}.md is out of date" in said
        assert "docs/results/gone.md is out of date" in said
        assert main([], root) == 0
        assert not (page.parent / "gone.md").exists()
        assert main(["--check"], root) == 0


class TestRefused:
    def refused(self, folder, root, capsys):
        before = everything(root)
        assert main([str(folder)], root) == 1
        assert everything(root) == before
        (line,) = capsys.readouterr().err.splitlines()
        return line

    def test_is_a_run_that_is_not_finished(self, root, folder, capsys):
        (folder / "report.html").unlink()
        assert "report.html is missing" in self.refused(folder, root, capsys)

    def test_is_a_study_that_is_not_in_the_registry(self, root, folder, capsys):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "study": "mine"}))
        assert "'mine'" in self.refused(folder, root, capsys)

    def test_is_a_figure_that_is_too_large_also_as_pixels(self, root, folder, capsys):
        for kind in ("svg", "png"):
            (folder / "figures" / f"draws.{kind}").write_text("x" * (small.LIMIT + 1))
        assert "draws.svg" in self.refused(folder, root, capsys)

    def test_is_a_setting_that_is_a_path(self, root, folder, capsys):
        path = folder / "report.json"
        report = json.loads(path.read_text())
        path.write_text(json.dumps({**report, "settings": {**report["settings"], "rate": "/home/me/x.npz"}}))
        assert "rate /home/me/x.npz" in self.refused(folder, root, capsys)

    def test_is_a_readme_without_a_place_for_the_table(self, root, folder, capsys):
        (root / "README.md").write_text("nothing")
        assert main([str(folder)], root) == 1
        assert "README.md must have the lines" in capsys.readouterr().err


class TestTheRepository:
    def test_all_that_is_published_takes_at_most_four_megabytes(self):
        assert (
            sum(path.stat().st_size for path in (ROOT / "docs" / "results").rglob("*") if path.is_file()) <= 4_000_000
        )

    @pytest.mark.slow
    def test_shows_what_follows_from_its_published_runs(self):
        # in a process of its own: other tests add studies to the registry
        done = subprocess.run(
            [sys.executable, "-m", "tools.results", "--check"], cwd=ROOT, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_what_a_title_measures_stands_in_the_first_sentence_too(self):
        """Numbers with a decimal point, to as many digits as either has."""
        rounded = lambda x, like: round(float(x), len(like.split(".")[1])) == float(like)
        for path in (ROOT / "docs" / "results").glob("*/run.json"):
            record = Record.from_json(path.read_text())
            title, said = (re.findall(r"\d+\.\d+", text) for text in (record.title, record.summary))
            missing = [x for x in title if not any(rounded(x, y) or rounded(y, x) for y in said)]
            assert missing == [], record.name

    def test_every_page_belongs_to_a_study_and_names_its_files(self):
        results = ROOT / "docs" / "results"
        pages = {path.stem: path.read_text() for path in results.glob("*.md") if path.stem not in ("index", "findings")}
        runs = [Record.from_json(path.read_text()) for path in results.glob("*/run.json")]
        assert set(pages) == {run.name for run in runs if not run.table_of}
        for name, page in pages.items():
            record = Record.from_json((results / name / "run.json").read_text())
            assert record.table_of == ""
            assert record.study in studies.registry
            assert name == "-".join(part for part in (record.study, record.variant) if part)
            for path in (results / name).iterdir():
                assert path.stat().st_size <= small.LIMIT
                assert path.name == "run.json" or f"({name}/{path.name})" in page
            for link in re.findall(r"\]\(([^)#:]+)\)", page):
                assert (results / link).is_file()
