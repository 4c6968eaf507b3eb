"""What packages, workflows and the documentation name exists, and agrees with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from scripts import lowest, release

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = (ROOT / "packaging/conda/recipe.yaml").read_text()
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def section(name: str) -> list[str]:
    """The requirements of one section of the recipe, without spaces."""
    (found,) = re.findall(rf"^  +{name}:\n((?: +- .*\n)+)", RECIPE, re.M)
    return [line.strip(" -").replace(" ", "") for line in found.splitlines()]


def test_the_conda_recipe_requires_what_the_project_does():
    wanted = [re.sub(r"^[\w-]+", lambda m: CONDA_NAMES.get(m[0], m[0]), d) for d in PROJECT["project"]["dependencies"]]
    assert sorted(section("run")) == sorted([*wanted, "python" + PROJECT["project"]["requires-python"]])
    assert set(PROJECT["build-system"]["requires"]) <= set(section("host"))


def test_all_files_state_the_same_version():
    version = PROJECT["project"]["version"]
    assert f'version: "{version}"' in RECIPE
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_workflows_run_targets_that_the_makefile_has():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    workflows = "\n".join(path.read_text() for path in sorted((ROOT / ".github").rglob("*.yml")))
    asked = set(re.findall(r"run: make ([a-z-]+)", workflows))
    assert asked
    assert asked <= targets


def test_the_navigation_lists_every_page():
    listed = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} - listed == set()


def test_the_lowest_versions_are_those_that_the_project_states():
    text = (ROOT / "pyproject.toml").read_text()
    lines = lowest.main(["scale", "test"], text).splitlines()
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["scale"], *extras["test"]]
    assert lines == [each.replace(">=", "==") for each in wanted if not each.startswith("equitangents[")]
    assert lowest.lowest("zarr>=3.0.8,<4; sys_platform == 'linux'") == "zarr==3.0.8; sys_platform == 'linux'"
    for unbounded in ("numpy", "numpy==2.0", "numpy<3"):
        with pytest.raises(ValueError, match="write NAME>=VERSION"):
            lowest.lowest(unbounded)


def test_the_makefile_names_what_it_depends_on():
    """Tests that exist, and every script that sets up the environment."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (tests,) = re.findall(r"^LOWEST_TESTS := \$\(addprefix tests/,(.*)\)$", makefile, re.M)
    assert [name for name in tests.split() if not (ROOT / "tests" / name).exists()] == []
    (needed,) = re.findall(r"^\$\(STAMP\): (.*)$", makefile, re.M)
    called = set(re.findall(r"scripts/\w+\.sh", (ROOT / "scripts/setup.sh").read_text()))
    assert called <= set(needed.split())


class TestReleasing:
    ADDRESS = "https://host.example/someone/equitangents"

    @pytest.fixture
    def texts(self) -> dict[str, str]:
        return {name: (ROOT / name).read_text() for name in release.FILES}

    def test_a_release_lacks_nothing_and_every_file_has_its_version_day_and_address(self, texts, tmp_path, capsys):
        assert "pyproject.toml: the address is" in "\n".join(release.missing(texts))
        made = release.released(texts, "7.0.1", self.ADDRESS, "2030-01-31")
        assert release.missing(made) == []
        assert tomllib.loads(made["pyproject.toml"])["project"]["version"] == "7.0.1"
        assert "date-released: 2030-01-31\n" in made["CITATION.cff"]
        assert f"]({self.ADDRESS}/raw/v7.0.1/docs/images/rotated-images.svg)" in made["README.md"]
        again = release.released(made, "7.0.2", self.ADDRESS, "2030-02-01")
        assert again["CITATION.cff"].count("repository-code:") == 1
        for name in release._VERSION:
            other = {**made, name: made[name].replace("7.0.1", "7.0.2")}
            assert any(name in line or "CHANGELOG" in line for line in release.missing(other))
        undated = {**made, "CHANGELOG.md": made["CHANGELOG.md"].replace(" - 2030-01-31", "")}
        assert release.missing(undated) == ["CHANGELOG.md: no dated section of 7.0.1"]
        assert release.released(made, "7.0.1", self.ADDRESS, "2030-02-01")["CHANGELOG.md"] == made["CHANGELOG.md"]
        assert release.main(["7.0.1"], tmp_path) == 2
        assert "VERSION ADDRESS" in capsys.readouterr().out
