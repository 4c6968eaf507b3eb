"""`make mutate` on a project of two functions, of which one is tested: what counts as seen, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools.mutate.faults import FaultError, load

ROOT = Path(__file__).resolve().parents[2]
FAULTS = """
wide = ["tests/test_sums.py"]

[[file]]
path = "src/sums.py"
tests = ["tests/test_sums.py"]
faults = [
  { says = "a sum is a difference", find = "a + b", put = "a - b" },
  { says = "nothing is changed", find = "a + b", put = "a + b" },
  { says = "a half is a third", find = "a / 2", put = "a / 3" },
  { says = "a third that nobody reads", find = "a / 2", put = "a / 3.0", reason = "half is not used" },
  { says = "the tests fail without it", find = "a + b", put = "a * b", tests = ["tests/test_wrong.py"] },
  { says = "nothing can be imported", find = "def add", put = "def add(" },
]

[[file]]
path = "src/equitangents/__init__.py"
tests = ["tests/test_answer.py"]
faults = [{ says = "the copy is another than the package that is installed", find = "42", put = "43" }]
"""


def project(folder: Path, faults: str = FAULTS) -> Path:
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow: not run"]\n',
        "src/sums.py": "def add(a, b):\n    return a + b\n\n\ndef half(a):\n    return a / 2\n",
        "tests/test_sums.py": "from sums import add\n\n\ndef test_add():\n    assert add(1, 3) == 4\n",
        "src/equitangents/__init__.py": "ANSWER = 42\n",  # a package of this name is installed
        "tests/test_answer.py": "from equitangents import ANSWER\n\n\ndef test_it():\n    assert ANSWER == 42\n",
        "tests/test_wrong.py": "from sums import add\n\n\ndef test_add():\n    assert add(1, 3) == 5\n",
        "faults/sums.toml": faults,
        "faults/settings.toml": 'warm = ["hypothesis", "pytest"]\n',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def mutate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.mutate", "--root", str(folder), "--faults", str(folder / "faults")]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str], dict[str, str]]:
    folder = project(tmp_path_factory.mktemp("project"))
    done = mutate(folder)
    lines = (folder / "build/mutate/results.jsonl").read_text().splitlines()
    return folder, done, {r["name"].rpartition(": ")[2]: r["verdict"] for r in map(json.loads, lines)}


def test_a_fault_is_seen_where_a_test_fails_that_passes_without_it(run) -> None:
    verdicts = run[2]
    assert verdicts["a sum is a difference"] == "seen"
    assert verdicts["nothing can be imported"] == "seen"
    assert verdicts["the copy is another than the package that is installed"] == "seen"
    assert verdicts["the tests fail without it"] == "unclear"


def test_a_fault_that_is_not_there_survives(run) -> None:
    assert run[2]["nothing is changed"] == "survived"
    assert run[2]["a half is a third"] == "survived"


def test_the_table_counts_them_and_a_survivor_without_a_reason_is_an_error(run) -> None:
    done = run[1]
    assert done.returncode == 1, done.stderr
    assert "3 of 7 faults are seen (42.9 %), 1 survive with a reason" in done.stdout
    assert "SURVIVED   sums: sums.py: a half is a third" in done.stdout
    assert "UNCLEAR    sums: sums.py: the tests fail without it" in done.stdout


def test_the_project_is_as_it_was(run, tmp_path: Path) -> None:
    left = {p.relative_to(run[0]): p.read_text() for p in run[0].rglob("*") if p.is_file() and "build" not in p.parts}
    fresh = project(tmp_path)
    assert left == {p.relative_to(fresh): p.read_text() for p in fresh.rglob("*") if p.is_file()}


def test_what_is_known_is_not_run_again_until_its_tests_change(run) -> None:
    folder = run[0]
    again = mutate(folder, "--only", "third")
    assert "to plant" not in again.stdout
    test = folder / "tests/test_sums.py"
    before = test.read_text()
    test.write_text(before + "\n\ndef test_half():\n    from sums import half\n\n    assert half(1) == 0.5\n")
    changed = mutate(folder, "--only", "a half is a third")
    test.write_text(before)
    assert "1 faults to plant" in changed.stdout
    assert changed.returncode == 0


def test_a_fault_that_cannot_be_planted_is_refused(tmp_path: Path) -> None:
    for find, count in (("a ** 2", 0), ("def", 2)):
        fault = f'{{ says = "lost", find = "{find}", put = "b" }}'
        head = FAULTS.partition("faults = [")[0]
        done = mutate(project(tmp_path, f"{head}faults = [{fault}]\n"), "--list")
        assert done.returncode == 2
        assert f"{find!r} occurs {count} times" in done.stderr


def test_a_fault_of_the_engine_is_an_expression(tmp_path: Path) -> None:
    (tmp_path / "native").mkdir()
    (tmp_path / "native/sum.hpp").write_text("inline int sum(int a) { a += 1; return a + a; }")
    fault = '{ says = "lost", find = "%s", put = "a" }'
    head = FAULTS.partition("faults = [")[0].replace("src/sums.py", "native/sum.hpp")
    folder = project(tmp_path, f"{head}faults = [{fault % 'a + a'}]\n") / "faults"
    assert [found.find for found in load(folder, tmp_path)] == ["a + a"]
    project(tmp_path, f"{head}faults = [{fault % 'a += 1; return a + a'}]\n")
    with pytest.raises(FaultError, match="lost: faults of the compiled engine are expressions"):
        load(folder, tmp_path)


DRAWN = {
    "src/equitangents/__init__.py": "",
    "src/equitangents/shapes/areas.py": "def area(a, b):\n    return a * b\n",
    "src/equitangents/shapes/sides.py": "def side(a, b):\n    return a / b\n",
    "tests/shapes/test_areas.py": "from equitangents.shapes.areas import area\n\n\n"
    "def test_it():\n    assert area(1, 2) == 2\n",
    "tests/shapes/test_sides.py": "import os, time\n\nfrom equitangents.shapes.sides import side\n\n\ndef test_it():\n"
    "    while side(1, 2) != 0.5 and not os.path.exists(os.environ['GO']):\n        time.sleep(0.05)\n"
    "    assert side(1, 2) == 0.5\n",
}  # fmt: skip


def test_drawn_faults_go_on_where_a_run_was_ended(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", 'wide = ["tests/shapes"]\nfile = []\n')
    for name, text in DRAWN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    go, results = tmp_path / "go", folder / "build/mutate/results.jsonl"
    command = [sys.executable, "-m", "tools.mutate", "--root", str(folder), "--faults", str(folder / "faults")]
    command += ["--drawn", "2", "--jobs", "1"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GO": str(go)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as stopped:
        started = time.monotonic()
        while not (results.exists() and results.read_text()):  # with the fault the tests of the other function wait
            if stopped.poll() is not None or time.monotonic() > started + 240:
                break
            time.sleep(0.05)
        stopped.send_signal(signal.SIGTERM)
        stopped.communicate(timeout=60)  # also its children have ended: the pipe is closed
    assert stopped.returncode == 128 + signal.SIGTERM
    assert ["area" in line for line in results.read_text().splitlines()] == [True]
    go.touch()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "1 faults to plant, 1 known from before" in done.stdout, done.stdout + done.stderr
    assert "2 of 2 faults are seen" in done.stdout
    assert len(results.read_text().splitlines()) == 2


WAYS = {"works": "while True: pass", "sleeps": "time.sleep(1.2)", "hangs": "time.sleep(60)", "crashes": "os.abort()"}


@pytest.mark.parametrize(
    ("way", "hangs", "kind"),
    [("works", 60, "time limit"), ("sleeps", 60, "passed"), ("hangs", 0.2, "time limit"), ("crashes", 60, "crash")],
)
def test_a_limit_counts_the_seconds_of_processors_and_a_hanging_test_is_ended(tmp_path, way, hangs, kind) -> None:
    script = f"""
import os, pathlib, time
from tools.mutate import tests_in_a_fork

tests_in_a_fork._HANGS = {hangs}
def call():
    {WAYS[way]}
    return 0
run = tests_in_a_fork.fork(call, pathlib.Path("log"), 1.0)
while (outcome := run.poll()) is None:
    time.sleep(0.02)
print(outcome.kind, outcome.seconds)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    found, seconds = done.stdout.split()[:-1], float(done.stdout.split()[-1])
    assert " ".join(found) == kind
    assert (seconds > 0.5) == (way == "works")  # a kernel may count by its clock


ENDED = """
import os, pathlib, signal, sys, time
from tools.mutate import tests_in_a_fork

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
for _ in range(20):  # a child that is ended at once may have no group of its own yet
    tests_in_a_fork.fork(lambda: time.sleep(600), pathlib.Path("log"), 1.0).stop()
run = None
try:
    with tests_in_a_fork.held_back():
        os.kill(os.getpid(), signal.SIGTERM)
        run = tests_in_a_fork.fork(lambda: time.sleep(600), pathlib.Path("log"), 1.0)
    print("went on")
finally:
    run.stop()
    print("stopped")
"""


def test_what_is_forked_as_an_ending_comes_is_known_and_ended(tmp_path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", ENDED], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "stopped\n"), done.stderr
