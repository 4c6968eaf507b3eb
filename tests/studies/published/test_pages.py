"""`python -m tools.results` makes the page of a finished run."""

from __future__ import annotations

import json
import re
import shutil
from types import SimpleNamespace

import pytest
from tools.results import small
from tools.results.__main__ import main
from tools.results.markup import parse
from tools.results.page import counts

from equitangents_studies.framework.claims import lead
from equitangents_studies.verdict import Verdict
from studies.published.drawn import NAME, forget, published


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

    def test_the_first_table_says_what_each_number_is_and_of_a_family_which(self, root, folder):
        claims = json.loads((folder / "verdicts.json").read_text())
        claims[0] |= {"measure": "The mean of all.", "note": "Shown: the least of 2, in 0.5 s. The other is 3."}
        (folder / "verdicts.json").write_text(json.dumps(claims))
        main([str(folder)], root)
        opened = published(root).split("<details")[0]
        assert "<br><small>The mean of all. Shown: the least of 2, in 0.5 s.</small> |" in opened

    def test_one_whose_claims_were_judged_anew_says_when(self, root, folder):
        main([str(folder)], root)
        path = root / "docs" / "results" / NAME / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "judged": "2026-11-24"}))
        main([], root)
        assert "Claims were judged anew from this run’s numbers on 2026-11-24." in published(root)

    def test_what_was_taken_over_from_another_run_stands_below_the_claims(self, root, folder):
        assert main([str(folder), "--taken-over", "Draws * are of yesterday."], root) == 0
        assert "\n\nTaken over: Draws \\* are of yesterday.\n\n" in published(root).split("<details")[0]
        assert main([str(folder)], root) == 0
        assert "Taken over" not in published(root)

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

    def test_shows_every_figure_and_publishes_no_table_of_the_run(self, root, folder):
        main([str(folder)], root)
        page, place = published(root), root / "docs" / "results"
        for name in re.findall(r"\]\(([^)]+)\)", page):
            assert (place / name).is_file()
        assert re.findall(r"!\[([^\]]{10,})\]\(drawn/draws.svg\)", page)
        assert list((folder / "results").glob("*.csv"))
        assert sorted(path.name for path in (place / NAME).iterdir()) == ["draws.svg", "run.json"]

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

    def test_says_that_a_killed_copy_has_the_same_tables_or_refuses_it(self, root, folder, tmp_path, capsys):
        copy = shutil.copytree(folder, tmp_path / "copy")
        publish = lambda: main([str(folder), "--killed-copy", str(copy)], root)
        assert publish() == 1
        assert "was not interrupted" in capsys.readouterr().err
        config = json.loads((copy / "config.json").read_text())
        config["sessions"].insert(0, {**config["sessions"][0], "ended": "running"})
        (copy / "config.json").write_text(json.dumps(config))
        assert publish() == 0
        assert "| no; a copy of it was, once, and has the same tables to the last bit |" in published(root)
        (copy / "results" / "numbers.csv").write_text("y\n0\n")
        assert publish() == 1
        assert "tables of" in capsys.readouterr().err
        report = (copy / "report.html").read_text()
        (copy / "report.html").write_text(re.sub(r"(<th[^>]*>rate</th><td>)[^<]*", r"\g<1>1234", report))
        assert publish() == 1
        assert "other settings" in capsys.readouterr().err

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


class TestLargeFiles:
    def test_a_large_figure_is_shown_as_pixels(self, root, folder):
        (folder / "figures" / "draws.svg").write_text("x" * (small.LIMIT + 1))
        assert main([str(folder)], root) == 0
        assert f"]({NAME}/draws.png)" in published(root)


def test_html_is_read_as_a_tree():
    document = parse("<p class='a b'>one <b>two</b><br>three &amp; four</p><p class='c'>five</p>")
    assert document.first("p", "b").text == "one twothree & four"
    assert [node.text for node in document.every("p")] == ["one twothree & four", "five"]
    assert document.first("table").text == ""
