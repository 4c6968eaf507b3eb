"""Runs the steps of a workflow of GitHub one after another, here: `workflow.py FILE FOLDER`, without containers.

FILE is YAML, or a page of the documentation, of which the first YAML block is taken. FOLDER stands for the repository
that the workflow belongs to, and OWNER/REPOSITORY for this project's. `act` would need Docker; what differs: programs
are those of this machine (`--path` puts some before them), a checkout is a link or nothing, and artifacts go into
`FOLDER/artifacts`. The exit status is 1 where a step fails that has to pass.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
OURS = "OWNER/REPOSITORY"
SUMMARY = "summary.md"


class StepError(Exception):
    """A step cannot be done here, or failed."""


@dataclass
class Runner:
    """Steps in a folder, with what they leave for those that follow."""

    folder: Path
    path: Sequence[Path] = ()
    ran: list[str] = field(default_factory=list)

    def checkout(self, asked: Mapping[str, Any]) -> None:
        """The repository itself is there; another one is this project, linked to where it is wanted."""
        other = asked.get("repository")
        if other is None:
            return
        if other != OURS:
            raise StepError(f"repository is {other!r}; only {OURS} can be had here")
        place = self.folder / asked["path"]
        if not place.exists():
            place.symlink_to(PROJECT, target_is_directory=True)

    def setup_python(self, asked: Mapping[str, Any]) -> None:
        """Python is that of this machine; the version has to be one that the project is made for."""
        version = str(asked["python-version"])
        described = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
        if f'"Programming Language :: Python :: {version}"' not in described:
            raise StepError(f"Python {version} is none that the project is made for")

    def upload_artifact(self, asked: Mapping[str, Any]) -> None:
        """Copies what the patterns name; none is a failure."""
        found = sorted({file for pattern in str(asked["path"]).split() for file in self.folder.glob(pattern)})
        if not found:
            raise StepError(f"no file is named by {asked['path']!r}")
        kept = self.folder / "artifacts" / str(asked["name"])
        kept.mkdir(parents=True, exist_ok=True)
        for file in found:
            shutil.copy(file, kept)

    def run(self, command: str, environment: Mapping[str, str]) -> None:
        """A command line, as GitHub's `run`."""
        whole = {**os.environ, **environment, "GITHUB_STEP_SUMMARY": str(self.folder / SUMMARY), "CI": "true"}
        whole["PATH"] = os.pathsep.join([*map(str, self.path), whole["PATH"]])
        done = subprocess.run(["bash", "-e", "-c", command], cwd=self.folder, env=whole, check=False)
        if done.returncode:
            raise StepError(f"exit status {done.returncode}")

    def step(self, step: Mapping[str, Any]) -> None:
        """One step of a job."""
        if "run" in step:
            return self.run(step["run"], {name: str(value) for name, value in step.get("env", {}).items()})
        action = step["uses"].partition("@")[0]
        known = {
            "actions/checkout": self.checkout,
            "actions/setup-python": self.setup_python,
            "actions/upload-artifact": self.upload_artifact,
        }
        if action not in known:
            raise StepError(f"the action {action} cannot be run here; known are {', '.join(known)}")
        known[action](step.get("with", {}))

    def job(self, job: Mapping[str, Any]) -> bool:
        """All steps; after one that failed those alone that are to run always. Whether none failed."""
        passed = True
        for step in job["steps"]:
            condition = step.get("if", "success()")
            if condition not in ("success()", "always()", "failure()"):
                raise StepError(f"the condition {condition!r} is not understood here")
            if condition == ("failure()" if passed else "success()"):
                continue
            name = str(step.get("name") or step.get("uses") or step["run"].strip().splitlines()[0])
            print(f"--- {name}", flush=True)
            self.ran.append(name)
            try:
                self.step(step)
            except StepError as error:
                print(f"--- failed: {name}: {error}", file=sys.stderr, flush=True)
                passed = False
        return passed


def read(file: Path) -> Mapping[str, Any]:
    """The workflow of a file, or of the first YAML block of a page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        text = text.partition("```yaml\n")[2].partition("```")[0]
    return yaml.safe_load(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """All jobs of a workflow, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--path", type=Path, action="append", default=[], help="a folder of programs, before all others"
    )
    asked = parser.parse_args(arguments)
    runner = Runner(asked.folder.resolve(), [each.resolve() for each in asked.path])
    return 0 if all([runner.job(job) for job in read(asked.file)["jobs"].values()]) else 1


if __name__ == "__main__":
    sys.exit(main())
