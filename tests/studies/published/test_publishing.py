"""`python -m tools.results` publishes runs, fills pages of a repository with their numbers, or refuses."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys

import pytest
from scipy.stats import t
from tools.results import small
from tools.results.__main__ import ROOT, main
from tools.results.record import Record

from equitangents import studies
from equitangents_studies.framework.catalogue import PLACES
from studies.published.drawn import NAME, edit, page
from studies.small import contents


class TestPublishing:
    def test_twice_and_from_the_folder_alone_changes_nothing(self, root, folder, tmp_path):
        main([str(folder)], root)
        first = contents(root)
        main([str(folder)], root)
        assert contents(root) == first
        assert main(["--check"], root) == 0
        moved = folder.rename(tmp_path / "elsewhere")
        for part in ("stages", "checkpoints"):
            shutil.rmtree(moved / part, ignore_errors=True)
        main([str(moved)], root)
        assert contents(root) == first

    def test_a_run_without_a_page_gets_the_beginnings_of_one(self, root, folder):
        assert main([str(folder)], root) == 0
        text = page(root).read_text()
        assert text.startswith("# A drawn study\n\nIs it <large>?\n\n![Numbers in their order](drawn/draws.svg)")
        for claim in json.loads((folder / "claims.json").read_text()):
            assert claim["statement"] in text
        assert "\nequitangents reproduce drawn --preset quick --set" in text
        assert sorted(path.name for path in (page(root).parent / NAME).iterdir()) == ["draws.svg", "run.json"]

    def test_what_is_written_by_hand_is_kept(self, root, folder):
        main([str(folder)], root)
        page(root).write_text("# <!-- claims{0}.value as .1f -->9<!-- --> is found\n\nNo figure.\n")
        for arguments in ([], [str(folder)]):
            assert main(arguments, root) == 0
            assert re.fullmatch(r"# <!-- .* -->-?\d\.\d<!-- --> is found\n\nNo figure.\n", page(root).read_text())
        assert [path.name for path in (page(root).parent / NAME).iterdir()] == ["run.json"]  # the page shows no figure
        index = page(root, "index").read_text()
        assert re.search(rf"\| \[{NAME}\]\({NAME}.md\) \| -?\d\.\d is found \| \d \| \d \| \d \|", index)

    def test_a_variant_has_a_page_of_its_own_or_is_shown_by_another(self, root, folder):
        for variant in ((), ("--variant", "C8")):
            assert main([str(folder), *variant], root) == 0
        assert page(root, f"{NAME}-C8").is_file()
        page(root, f"{NAME}-C8").unlink()
        edit(root, f"{NAME}-C8", table_of=NAME)
        assert main([str(folder), "--variant", "C8"], root) == 0
        assert not page(root, f"{NAME}-C8").is_file()
        assert f"| [{NAME}-C8]({NAME}.md) |  |" in page(root, "index").read_text()

    def test_check_says_what_is_out_of_date_on_any_page_and_leaves_it(self, root, folder, capsys):
        main([str(folder)], root)
        page(root).write_text("# F\n<!-- claims{0}.outcome -->it may be<!-- -->")
        (root / "README.md").write_text(f"<!-- {NAME}: claims{{0}}.outcome -->?<!-- -->")
        assert main(["--check"], root) == 1
        assert "it may be" in page(root).read_text()
        assert f"docs/results/{NAME}.md is out of date" in capsys.readouterr().out
        assert main([], root) == 0
        assert re.search("-->(holds|fails|undecided)<!--", (root / "README.md").read_text())
        assert main(["--check"], root) == 0

    def test_a_killed_run_has_its_sessions_until_it_finished(self, root, folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        last = {**config["sessions"][-1], "processor_seconds": 1.0}
        killed = {**last, "ended": "running", "processor_seconds": 1000.0}
        later = {**last, "began": "2099-01-01T00:00:00Z"}  # what is finished is resumed: only read
        path.write_text(json.dumps({**config, "sessions": [killed, last, later]}))
        main([str(folder)], root)
        record = Record.from_json((page(root).parent / NAME / "run.json").read_text())
        assert (record.interruptions, record.processor_seconds, record.date) == (1, 1001.0, last["began"][:10])

    def test_a_large_figure_is_shown_as_pixels(self, root, folder):
        main([str(folder)], root)
        (folder / "figures" / "draws.svg").write_text("x" * (small.LIMIT + 1))
        assert main([str(folder)], root) == 0
        assert (page(root).parent / NAME / "draws.png").is_file()


class TestTheIndex:
    def test_leads_with_numbers_theorems_and_statements_each_once_and_lists_those_that_do_not_hold(self, root, folder):
        (first, *_) = json.loads((folder / "claims.json").read_text())
        of = lambda statement, number, **more: {
            **first, "source": "arXiv 2406.06504", "kind": "source", "statement": statement, "number": number,
            "interval": [number - 0.1, number + 0.1], "numbers": {}, "bound": [None, None], **more,
        }  # fmt: skip
        claims = [
            of("A number", 1.0, reference=[1.1, 0.2]), of("Another", 1.0, reference=[9.0, 0.2]),
            of("Equal", 0.0, bound=[None, 1.0], theorem=True, covers="deterministic"),
            of("In the mean", 0.0, bound=[None, 1.0], theorem=True),
            of("More", 1.0, bound=[0.0, None], place="Theorem 2"),
            of("It is not", 1.0, bound=[3.0, None], stated="7"), of("Ours", 1.0, bound=[3.0, None], kind="ours"),
            of("Of others", 1.0, bound=[0.0, None], source="arXiv 1"),
        ]  # fmt: skip
        (folder / "claims.json").write_text(json.dumps(claims))
        listed = "\n## Not reproduced\n\n| of | what | why |\n| --- | --- | --- |\n| a | number | large |\n"
        path = page(root, "index")
        path.write_text(path.read_text() + listed)
        main([str(folder)], root)
        text = path.read_text()
        for row in (
            "numbers that they state | 1 | 1 | 0 | 1",
            "theorems, without sampling | 1 | 0 | 0 | 0",
            "other statements | 2 | 1 | 0 | 0",
        ):
            assert f"| {row} |" in text
        assert f"| [{NAME}]({NAME}.md) | It is not | fails |" in text
        assert "| In the mean" not in text
        assert "| Ours |" not in text
        assert "Another" in (root / "docs/results/ours-and-theirs.svg").read_text()
        edit(root, claims=[{**c, "outcome": "fails", "bound": [7.0, None]} for c in claims])
        edit(root, variant="other setting", table_of=NAME)  # which counts nothing
        main([], root)
        assert "| other statements | 0 | 0 | 0 | 0 |" in path.read_text()


class TestRefused:
    @staticmethod
    def edit(path, change):
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    @pytest.mark.parametrize(("change", "said"), [
        (lambda f, edit: (f / "report.html").unlink(), "report.html is missing"),
        (lambda f, edit: edit(f / "config.json", lambda c: c | {"study": "mine"}), "'mine'"),
        (lambda f, edit: [(f / "figures" / f"draws.{kind}").write_text("x" * (small.LIMIT + 1))
                          for kind in ("svg", "png")], "draws.svg"),
        (lambda f, edit: edit(f / "report.json", lambda r: r | {
            "settings": r["settings"] | {"rate": "/home/me/x.npz"}}), "rate /home/me/x.npz"),
    ], ids=["a run that is not finished", "no study of the registry", "a figure too large as pixels too", "a path"],
    )  # fmt: skip
    def test_is_what_cannot_be_published(self, folder, root, capsys, change, said):
        change(folder, self.edit)
        before = contents(root)
        assert main([str(folder)], root) == 1
        assert contents(root) == before
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


class TestTheRepository:
    RESULTS = ROOT / "docs" / "results"

    def test_all_that_is_published_takes_at_most_two_megabytes(self):
        assert sum(path.stat().st_size for path in self.RESULTS.rglob("*") if path.is_file()) <= 2_000_000

    @pytest.mark.slow
    def test_shows_the_numbers_of_its_published_runs(self):
        # in a process of its own: other tests add studies to the registry
        done = subprocess.run(
            [sys.executable, "-m", "tools.results", "--check"], cwd=ROOT, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_every_place_of_a_work_has_its_command_and_a_published_run(self):
        runs = {path.parent.name: Record.from_json(path.read_text()) for path in self.RESULTS.glob("*/run.json")}
        for place in (place for shown in PLACES.values() for place in shown):
            given = runs[place.run].command.removeprefix("equitangents reproduce ").split()
            assert set(place.command.split()) <= {*given, "--data-dir", "FOLDER"}, place
            assert place.command.split()[0] == runs[place.run].study

    @pytest.mark.parametrize(("page", "run", "claims"), [
        ("comparison", "comparison-C8-grey-corners-28-pixels-14-repetitions", [0]),
        ("learning-curves-networks", "learning-curves-networks", [3, 4, 5]),
        ("learning-curves-VEC-one-norm", "learning-curves-VEC-one-norm", [2]),
    ])  # fmt: skip
    def test_repetitions_that_were_raised_after_a_look_have_intervals_for_two_looks(self, page, run, claims):
        text = (self.RESULTS / f"{page}.md").read_text()
        assert "at 97.5 %, which allows for two looks" in text.replace("At", "at")
        for claim in (json.loads((self.RESULTS / run / "run.json").read_text())["claims"][i] for i in claims):
            wider = t.ppf(0.9875, claim["repeated"] - 1) / t.ppf(0.975, claim["repeated"] - 1)
            low, high = (claim["number"] + wider * (end - claim["number"]) for end in claim["interval"])
            digits = 2 if claim["number"] > 1 else 3
            assert f"{low:.{digits}f} to {high:.{digits}f}" in text
            least, most = claim["bound"]
            assert least is None or least <= low
            assert most is None or high <= most
            if claim["reference"] is not None:
                stated, spread = claim["reference"]
                assert abs(claim["number"] - stated) <= math.hypot((high - low) / 2, spread) <= 2 * spread

    def test_every_run_has_a_page_with_its_finding_figure_claims_and_command(self):
        runs = [Record.from_json(path.read_text()) for path in self.RESULTS.glob("*/run.json")]
        assert {path.stem for path in self.RESULTS.glob("*.md")} == {r.name for r in runs if not r.table_of} | {"index"}
        for run in runs:
            text = (self.RESULTS / run.page).read_text()
            assert run.study in studies.registry
            assert run.name == "-".join(part for part in (run.study, run.variant) if part)
            if run.table_of:
                assert f"<!-- {run.name}: claims" in text, run.name
                continue
            assert run.command in text, run.name
            assert "<!-- source -->" in text or not run.source_claims, run.name
            assert 150 <= len(re.findall(r"\S*\w\S*", re.sub(r"<.*?>", " ", text))) <= 500, run.name
            for path in (self.RESULTS / run.name).iterdir():
                assert path.stat().st_size <= small.LIMIT
                assert path.name == "run.json" or f"({run.name}/{path.name})" in text, path
