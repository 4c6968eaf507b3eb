"""`python -m tools.results` makes pages of the documentation from the folders of finished runs, and nothing else."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.results import overview, small
from tools.results.__main__ import ROOT, main
from tools.results.markup import parse
from tools.results.page import counts
from tools.results.record import Record

from equitangents import studies
from equitangents.report import UNDECIDED, Section, Table, Verdict
from equitangents_studies.comparison.page import HEADER
from equitangents_studies.framework.claims import lead
from equitangents_studies.framework.panels import panels
from equitangents_studies.framework.study import Presentation
from studies.small import Small

NAME = "drawn"
INFO = studies.StudyInfo(NAME, "A drawn study", "nobody, arXiv 1", ("quick",), "Is it <large>?", "none")


class Drawn(Small):
    """With a figure and a table in its report."""

    def present(self, settings, y, folder):
        with panels(folder, "draws", caption="Draws * of y.", alt="Numbers in their order") as drawn:
            drawn[0].plot(y)
        table = Table("Of 4.", ["", "OSP"], [["ensemble | mean", "3.9"]])
        sections = [Section("Numbers < 4", ["Drawn for $1."], [drawn.figure, table])]
        return Presentation({"numbers": {"y": y}}, sections, {"Members": "3"})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of a moment; of the studies that come with the package test_study_folders.py publishes miniatures."""
    made = Drawn()
    studies.add(INFO, made.study(), made.present)
    try:
        return studies.run(NAME, out=tmp_path_factory.mktemp(NAME) / "run", settings={"members": "7"}, progress=False)
    finally:
        del studies.registry[NAME]


@pytest.fixture
def registered(monkeypatch):
    """The study is in the registry while a test runs."""
    monkeypatch.setitem(studies.registry, NAME, INFO)


@pytest.fixture
def root(registered, tmp_path):
    """A repository with nothing but what the command changes."""
    made = tmp_path / "repository"
    (made / "docs").mkdir(parents=True)
    (made / "paper").mkdir()
    marked = {"README.md": overview._README, "docs/gallery.md": overview._GALLERY, "paper/paper.md": overview._PAPER}
    for name, marks in marked.items():
        (made / name).write_text(f"before\n\n{marks[0]}\n\n{marks[1]}\n\nafter\n")
    (made / "mkdocs.yml").write_text("nav:\n{}\n{}\n  - Last: last.md\n".format(*overview._MENU))
    return made


@pytest.fixture
def folder(finished, tmp_path):
    """A finished run that a test may change."""
    return Path(shutil.copytree(finished.folder, tmp_path / "run"))


def everything(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def published(root, name=NAME):
    return (root / "docs" / "results" / f"{name}.md").read_text()


def forget(folder, *keys):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in config.items() if key not in keys}))


class TestThePageOfARun:
    def test_says_of_every_claim_its_number_interval_verdict_and_meaning(self, root, folder):
        assert main([str(folder)], root) == 0
        page, claims = published(root), json.loads((folder / "verdicts.json").read_text())
        assert len(claims) > 0
        for claim in claims:
            assert f"### {claim['claim']}" in page
            assert Verdict.from_dict(claim).mark in page
            for part in ("number", "uncertainty", "meaning", "criterion", "measure", "place"):
                assert claim[part] in page.replace("\\", ""), part

    def test_begins_with_how_many_claims_hold(self, root, folder, finished):
        main([str(folder)], root)
        assert published(root).splitlines()[2] == lead(finished.claims, named=False)

    def test_begins_with_the_finding_and_its_sentence_where_there_are_any(self, root, folder):
        path = folder / "report.html"
        html = path.read_text().replace(">A drawn study</h1>", ">Draws are 1 on average</h1>")
        path.write_text(re.sub(r'(<p class="summary">)[^<]*', r"\1The mean is 1.0, the source’s 0.9.", html))
        main([str(folder)], root)
        first = published(root).splitlines()[:5:2]
        picture = "![Numbers in their order](drawn/draws.svg)"
        assert first == ["# Draws are 1 on average", "The mean is 1.0, the source’s 0.9.", picture]
        assert "| Draws are 1 on average |" in (root / "docs/results/index.md").read_text()
        said = "Draws are 1 on average. The mean is 1.0, the source’s 0.9."
        assert said in (root / "docs/gallery.md").read_text()

    def test_the_sources_claims_stand_open_and_all_else_folds(self, root, folder):
        claims = json.loads((folder / "verdicts.json").read_text())
        ours = {**claims[0], "claim": "Draws are fair", "origin": "ours", "verdict": "fails"}
        check = {**claims[0], "claim": "Draws are numbers", "origin": "check"}
        (folder / "verdicts.json").write_text(json.dumps([ours, *claims, check]))
        main([str(folder)], root)
        opened, besides, checks, full, *_ = published(root).split("<details markdown")
        assert f"| {claims[0]['claim']} | here | ✓ holds |" in opened
        assert "Draws are" not in opened
        assert "| Draws are fair |" in besides
        assert "fails" not in besides
        assert "| Draws are numbers |" in checks
        assert full.count("### ") == 3
        index = (root / "docs/results/index.md").read_text()
        assert "| 1 | 0 | 0 |" in index

    def test_one_whose_claims_were_judged_anew_says_when(self, root, folder):
        main([str(folder)], root)
        path = root / "docs" / "results" / NAME / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "judged": "2026-11-24"}))
        main([], root)
        assert "Claims were judged anew from this run’s numbers on 2026-11-24." in published(root)

    def test_has_all_settings_versions_the_machine_and_the_command(self, root, folder):
        main([str(folder)], root)
        page, config = published(root), json.loads((folder / "config.json").read_text())
        for key in config["settings"]:
            assert f"| {key} | " in page
        for key, version in config["versions"].items():
            assert f"| {key} | {version} |" in page
        assert config["sessions"][0]["machine"]["processor"] in page
        assert "equitangents reproduce drawn --preset quick --set" in page
        assert re.search(r"\| Run time \| \d+ s; \d+ (min \d+ )?s of processors \|", page)
        assert "| Interrupted and resumed | no |" in page
        assert f"| Date | {config['sessions'][0]['began'][:10]} |" in page

    def test_shows_every_figure_and_links_every_table(self, root, folder):
        main([str(folder)], root)
        page, place = published(root), root / "docs" / "results"
        for name in re.findall(r"\]\(([^)]+)\)", page):
            assert (place / name).is_file()
        assert re.findall(r"!\[([^\]]{10,})\]\(drawn/draws.svg\)", page)
        for table in (folder / "results").glob("*.csv"):
            assert (place / NAME / table.name).read_bytes() == table.read_bytes()

    def test_shows_the_tables_of_the_report(self, root, folder):
        main([str(folder)], root)
        page = published(root)
        assert (
            "## Numbers &lt; 4\n\nDrawn for \\$1.\n\n|  | OSP |\n| --- | ---: |\n| ensemble \\| mean | 3.9 |\n\n*Of 4.*"
            in page
        )

    def test_says_how_often_the_run_was_interrupted(self, root, folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        (last,) = config["sessions"]
        last["processor_seconds"] = 1.0
        killed = {**last, "ended": "running", "processor_seconds": 1000.0}
        for before, words in (([killed], "once"), ([killed, killed], "2 times"), ([], "no")):
            path.write_text(json.dumps({**config, "sessions": [*before, last]}))
            main([str(folder)], root)
            assert re.search(rf"\| Interrupted and resumed \| {words}\b", published(root))
        later = {**last, "began": "2099-01-01T00:00:00Z"}  # what is finished is resumed: only read
        path.write_text(json.dumps({**config, "sessions": [killed, last, later]}))
        main([str(folder)], root)
        assert "| Interrupted and resumed | once;" in published(root)
        assert f"| Date | {last['began'][:10]} |" in published(root)
        path.write_text(json.dumps({**config, "seconds": 4000.0, "sessions": [killed, last]}))
        main([str(folder)], root)
        assert re.search(r"\| Run time \| 1 h 6 min; 16 min 41 s of processors", published(root))

    def test_says_what_a_folder_of_an_earlier_version_does_not_know(self, root, folder):
        forget(folder, "sessions")
        assert main([str(folder)], root) == 0
        for what in ("Date", "Interrupted and resumed", "Machine"):
            assert f"| {what} | not recorded |" in published(root)
        assert "processor time not recorded" in published(root)


class TestTheOutcome:
    @pytest.mark.parametrize(
        ("holding", "undecided", "failing", "words"),
        [
            (2, 0, 0, "2 of 2 claims of the source hold."),
            (1, 1, 0, "1 of 2 claims of the source holds, 1 is undecided."),
            (0, 2, 3, "0 of 5 claims of the source hold, 2 are undecided, 3 do not."),
            (1, 0, 1, "1 of 2 claims of the source holds, 1 does not."),
        ],
    )
    def test_counts_every_claim_of_the_source_once_and_no_other(self, holding, undecided, failing, words):
        kinds = ["holds"] * holding + ["not decidable at this size"] * undecided + ["fails"] * failing
        verdicts = [Verdict("c", kind, "m", "k", 1.0, (1.0, 1.0), "s", origin="source") for kind in kinds]
        others = [Verdict("c", "fails", "m", "k", 1.0, (1.0, 1.0), "s", origin="ours")] * 3
        assert lead(verdicts + others, named=False) == words
        assert list(counts(SimpleNamespace(verdicts=verdicts + others)).values()) == [holding, undecided, failing]


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
        verdicts = [claim["verdict"] for claim in json.loads((folder / "verdicts.json").read_text())]
        numbers = " | ".join(str(verdicts.count(v)) for v in ("holds", "not decidable at this size", "fails"))
        assert f"| [{NAME}]({NAME}.md) | Is it &lt;large>? | {numbers} |" in index
        gallery = (root / "docs/gallery.md").read_text()
        assert f"`{NAME}`" not in unpublished()
        assert unpublished().count("\n- `") == len(studies.registry) - 1
        assert Record.from_json((root / "docs/results" / NAME / "run.json").read_text()).sentence in gallery
        assert f"](results/{NAME}/draws.svg)" in gallery
        assert f"](results/{NAME}.md)" in gallery
        assert all(info.name in gallery for info in studies.registry.values())
        nav = (root / "mkdocs.yml").read_text()
        assert f"      - results/index.md\n      - results/findings.md\n      - results/{NAME}.md\n" in nav
        assert nav.endswith("  - Last: last.md\n")

    def test_a_variant_has_a_page_of_its_own(self, root, folder):
        assert main([str(folder)], root) == 0
        assert main([str(folder), "--variant", "C8"], root) == 0
        assert published(root, f"{NAME}-C8").splitlines()[0].endswith(": C8")
        assert f"| [{NAME}-C8]({NAME}-C8.md) | The same for C8. |" in (root / "docs/results/index.md").read_text()
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
            {**source, "claim": "It is not", "verdict": "fails", "why": "At width 64 it is 3."},
            {**source, "claim": "It is open", "verdict": UNDECIDED, "repeated": 5, "further": 12},
            {**source, "claim": "Ours", "origin": "ours", "verdict": "fails"},
        ]
        page = self.published(root, folder, claims=claims, title="Found.", summary="1, not 2.", seconds=600.0)
        assert "## Equivariant Neural Tangent Kernels (Misof, Kessel & Gerken 2024, arXiv 2406.06504)" in page
        assert f"**[Found.]({NAME}.md)**\n" in page
        assert "1, not 2." not in page
        assert page.count("Claims: 3. Hold, or agree with ours: 1; fail, or differ: 1; undecided: 1.") == 2
        assert "- ✗ fails: It is not (" in page
        assert "At width 64 it is 3." in page
        assert "12 more, about 24 min, would decide it" in page
        assert "It is so" not in page
        assert "Ours" not in page

    def test_a_run_without_a_finding_lists_its_claims_and_one_of_another_work_stands_last(self, root, folder):
        page = self.published(root, folder, claims=[{"source": "arXiv 1910.01663", "claim": "It is so"}])
        assert "## Other works" in page
        assert "- ✓ holds: It is so (" in page


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
        path = folder / "report.html"
        path.write_text(re.sub(r"(<th[^>]*>rate</th><td>)[^<]*", r"\1/home/me/x.npz", path.read_text()))
        assert "rate /home/me/x.npz" in self.refused(folder, root, capsys)

    def test_is_a_readme_without_a_place_for_the_table(self, root, folder, capsys):
        (root / "README.md").write_text("nothing")
        assert main([str(folder)], root) == 1
        assert "README.md must have the lines" in capsys.readouterr().err


class TestLargeFiles:
    def test_a_large_figure_is_shown_as_pixels(self, root, folder):
        (folder / "figures" / "draws.svg").write_text("x" * (small.LIMIT + 1))
        assert main([str(folder)], root) == 0
        assert f"]({NAME}/draws.png)" in published(root)

    def test_a_large_table_is_thinned_and_the_page_says_so(self, root, folder):
        rows = [[i, repr(i / 7)] for i in range(40_000)]
        with (folder / "results" / "large.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["i", "x"], *rows])
        main([str(folder)], root)
        written = root / "docs" / "results" / NAME / "large.csv"
        assert written.stat().st_size <= small.LIMIT
        header, *kept = list(csv.reader(written.read_text().splitlines()))
        assert header == ["i", "x"]
        assert len(kept) > 10_000
        for i, x in kept:
            assert abs(float(x) - int(i) / 7) <= 1e-5 * (1 + int(i) / 7)
        assert f"({len(kept):,} of 40,000)" in published(root)

    def test_digits_go_before_rows(self):
        text = "x\n" + "".join(f"{i / 7!r}\n" for i in range(100))
        kept, words = small.table(text, limit=1000)
        assert kept.count("\n") == 101
        assert words == "numbers to 6 digits"
        assert small.table(text, limit=10_000) == (text, "")


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
        assert "are trained on 1,200 of the 10,000 images" in readme
        assert readme.startswith("before\n")
        assert readme.endswith("\n\nafter\n")

    def test_is_refused_where_the_run_has_no_such_columns(self, root, capsys):
        self.comparison(root, HEADER[:3])
        assert main([], root) == 1
        assert "OSP, foreign images" in capsys.readouterr().err


class TestTheRepository:
    def test_shows_what_follows_from_its_published_runs(self):
        # in a process of its own: other tests add studies to the registry
        done = subprocess.run(
            [sys.executable, "-m", "tools.results", "--check"], cwd=ROOT, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_every_page_belongs_to_a_study_and_names_its_files(self):
        results = ROOT / "docs" / "results"
        pages = {path.stem: path.read_text() for path in results.glob("*.md") if path.stem not in ("index", "findings")}
        assert set(pages) == {path.name for path in results.iterdir() if path.is_dir()}
        for name, page in pages.items():
            record = Record.from_json((results / name / "run.json").read_text())
            assert record.study in studies.registry
            assert name == "-".join(part for part in (record.study, record.variant) if part)
            for path in (results / name).iterdir():
                assert path.stat().st_size <= small.LIMIT
                assert path.name == "run.json" or f"({name}/{path.name})" in page
            for link in re.findall(r"\]\(([^)#:]+)\)", page):
                assert (results / link).is_file()


def test_html_is_read_as_a_tree():
    document = parse("<p class='a b'>one <b>two</b><br>three &amp; four</p><p class='c'>five</p>")
    assert document.first("p", "b").text == "one twothree & four"
    assert [node.text for node in document.every("p")] == ["one twothree & four", "five"]
    assert document.first("table").text == ""
