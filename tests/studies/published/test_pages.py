"""`python -m tools.results` makes the page of a finished run."""

from __future__ import annotations

import json
import re
import shutil
from types import SimpleNamespace

import pytest
from tools.results import small
from tools.results.__main__ import main
from tools.results.page import counts, plain

from equitangents_studies.claim import Claim
from studies.published.drawn import NAME, edit, published


class TestThePageOfARun:
    def test_has_a_row_for_every_claim(self, root, folder):
        assert main([str(folder)], root) == 0
        page, claims = published(root), json.loads((folder / "claims.json").read_text())
        assert len(claims) > 0
        for claim in map(Claim.from_dict, claims):
            assert f"| {claim.place} | {claim.outcome} | {claim.number_cell}" in page
            for cell in (claim.statement, claim.measure, claim.interval_cell, claim.bound_cell):
                assert plain(cell) in page

    def test_begins_with_what_was_written_by_hand_also_when_published_again(self, root, folder):
        main([str(folder)], root)
        edit(root, title="Draws are 1 on average", summary="The mean is 1.0.", notes={"It is not so": "Noise."})
        for arguments in ([], [str(folder)]):
            assert main(arguments, root) == 0
            first = published(root).splitlines()[:5:2]
            picture = "![Numbers in their order](drawn/draws.svg)"
            assert first == ["# Draws are 1 on average", "The mean is 1.0.", picture]
            assert "- It is not so: Noise." in published(root)
        assert "| Draws are 1 on average |" in (root / "docs/results/index.md").read_text()
        assert "Draws are 1 on average. The mean is 1.0." in (root / "docs/gallery.md").read_text()

    def test_claims_stand_by_kind_and_the_sources_alone_are_counted(self, root, folder):
        claims = json.loads((folder / "claims.json").read_text())
        ours = {**claims[0], "statement": "Draws are fair", "kind": "ours", "bound": [9, None]}
        check = {**claims[0], "statement": "Draws are numbers", "kind": "check"}
        (folder / "claims.json").write_text(json.dumps([ours, *claims, check]))
        main([str(folder)], root)
        page = published(root)
        places = [page.index(x) for x in (claims[0]["statement"], "## Questions", "Draws are fair", "Draws are num")]
        assert places == sorted(places)
        assert "| 1 | 0 | 0 |" in (root / "docs/results/index.md").read_text()

    def test_a_run_without_a_page_is_rows_of_the_table_of_settings(self, root, folder):
        main([str(folder)], root)
        for variant, rate in (("slow", "0.5"), ("fast", "0.9")):
            main([str(folder), "--variant", variant], root)
            settings = json.loads((root / f"docs/results/{NAME}-{variant}/run.json").read_text())["settings"]
            edit(root, f"{NAME}-{variant}", table_of=NAME, settings={**settings, "rate": rate})
        main([], root)
        assert not (root / "docs/results" / f"{NAME}-slow.md").exists()
        assert "| run | rate | claim | number | interval | the source’s | outcome |" in published(root)
        assert re.search(r"\n\| fast \| 0.9 \| [^|]+ \| [^|]+ \| [^|]+ \| – \| holds \|", published(root))
        assert f"[{NAME}-slow]({NAME}.md)" in (root / "docs/results/index.md").read_text()

    def test_what_is_not_of_this_run_is_said(self, root, folder):
        assert main([str(folder), "--taken-over", "Draws * are of yesterday."], root) == 0
        edit(root, judged="2026-11-24")
        main([], root)
        assert "| Claims judged again | 2026-11-24 |" in published(root)
        assert "| Taken over | Draws \\* are of yesterday. |" in published(root)
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
        assert re.search(r"\| Run time \| \d+ s \|", page)
        assert re.search(r"\| Processor time \| \d+ (min \d+ )?s \|", page)
        assert "| Interruptions | 0 |" in page
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
        assert "## Figures and tables\n\n|  | OSP |\n| --- | ---: |\n| ensemble \\| mean | 3.9 |\n\n*Of 4.*" in page

    def test_says_how_often_the_run_was_interrupted(self, root, folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        (last,) = config["sessions"]
        last["processor_seconds"] = 1.0
        killed = {**last, "ended": "running", "processor_seconds": 1000.0}
        for before in ([killed], [killed, killed], []):
            path.write_text(json.dumps({**config, "sessions": [*before, last]}))
            main([str(folder)], root)
            assert f"| Interruptions | {len(before)} |" in published(root)
        later = {**last, "began": "2099-01-01T00:00:00Z"}  # what is finished is resumed: only read
        path.write_text(json.dumps({**config, "sessions": [killed, last, later]}))
        main([str(folder)], root)
        assert "| Interruptions | 1 |" in published(root)
        assert f"| Date | {last['began'][:10]} |" in published(root)
        path.write_text(json.dumps({**config, "seconds": 4000.0, "sessions": [killed, last]}))
        main([str(folder)], root)
        assert "| Run time | 1 h 6 min |" in published(root)
        assert "| Processor time | 16 min 41 s |" in published(root)

    def test_says_that_a_killed_copy_has_the_same_tables_or_refuses_it(self, root, folder, tmp_path, capsys):
        copy = shutil.copytree(folder, tmp_path / "copy")
        publish = lambda: main([str(folder), "--killed-copy", str(copy)], root)
        assert publish() == 1
        assert "was not interrupted" in capsys.readouterr().err
        config = json.loads((copy / "config.json").read_text())
        config["sessions"].insert(0, {**config["sessions"][0], "ended": "running"})
        (copy / "config.json").write_text(json.dumps(config))
        assert publish() == 0
        assert "| Interruptions of a copy with the same tables | 1 |" in published(root)
        (copy / "results" / "numbers.csv").write_text("y\n0\n")
        assert publish() == 1
        assert "tables of" in capsys.readouterr().err
        report = json.loads((copy / "report.json").read_text())
        report["settings"]["rate"] = "1234"
        (copy / "report.json").write_text(json.dumps(report))
        assert publish() == 1
        assert "other settings" in capsys.readouterr().err


@pytest.mark.parametrize(("holding", "undecided", "failing"), [(2, 0, 0), (0, 2, 3)])
def test_counts_every_claim_of_the_source_once_and_no_other(holding, undecided, failing):
    made = lambda high, kind: Claim("c", kind, "s", "p", "m", 1.0, (0.5, high), bound=(-1.0, 2.0))
    ends = [1.5] * holding + [2.5] * undecided
    missing = [Claim("c", "source", "s", "p", "m", 4.0, (3.0, 5.0), bound=(-1.0, 2.0))] * failing
    claims = [*(made(end, "source") for end in ends), *missing, *[made(2.5, "ours")] * 3]
    found = counts(SimpleNamespace(judged_claims=claims))
    assert list(found.values()) == [holding, undecided, failing]


class TestLargeFiles:
    def test_a_large_figure_is_shown_as_pixels(self, root, folder):
        (folder / "figures" / "draws.svg").write_text("x" * (small.LIMIT + 1))
        assert main([str(folder)], root) == 0
        assert f"]({NAME}/draws.png)" in published(root)
