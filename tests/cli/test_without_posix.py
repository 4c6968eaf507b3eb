"""What Windows lacks: nothing that people begin with needs `fcntl`, `resource` or their like to be imported."""

import subprocess
import sys

import pytest

MISSING = ("fcntl", "resource", "termios", "pwd", "grp", "pty", "posix_ipc")
START = f"import sys\nfor name in {MISSING!r}:\n    sys.modules[name] = None\n"
HELD = """
import os, signal
of_os = ("O_DIRECT O_DIRECTORY O_NOFOLLOW fork killpg sched_getaffinity sysconf getuid geteuid statvfs preadv pwritev "
         "posix_fadvise posix_fallocate")
for holder, names in ((os, of_os), (signal, "SIGKILL SIGALRM setitimer pthread_sigmask")):
    for name in names.split():
        if hasattr(holder, name):
            delattr(holder, name)
"""
MODULES = """
import importlib, pkgutil
import equitangents, equitangents_studies
walks = [pkgutil.walk_packages(p.__path__, f"{p.__name__}.") for p in (equitangents, equitangents_studies)]
for module in (module for walk in walks for module in walk):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        assert not any(name in str(error) for name in MISSING), (module.name, error)
print("imported")
"""


def run(text, *, held=""):
    """What a new process prints, without the modules, and without the parts of `os` and `signal`, of POSIX alone."""
    return subprocess.run([sys.executable, "-c", START + held + text], capture_output=True, text=True, check=False)


def command(*words):
    """The program's text that runs a command."""
    return f"from equitangents.cli.main import main\nmain({list(words)!r})"


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        *(pytest.param((name, "--help"), marks=pytest.mark.slow) for name in ("doctor", "fit", "audit", "reproduce")),
    ],
)
def test_commands_start(words):
    done = run(command(*words), held=HELD)
    assert (done.returncode, done.stderr) == (0, "")
    assert "toy" in done.stdout or words != ("list",)


@pytest.mark.slow
def test_a_fit_and_a_prediction_run(tmp_path):
    text = """
import numpy as np
import equitangents as et
rng = np.random.default_rng(0)
x, y = rng.normal(size=(20, 5)), rng.normal(size=20)
net = et.nn.Sequential(et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
model = et.InfiniteEnsemble(net).fit(x, y)
assert np.allclose(np.ravel(model.predict(x)), y, atol=1e-6)
print("done")
"""
    done = run(text, held=HELD)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.slow
def test_every_module_can_be_imported():
    done = run(f"MISSING = {MISSING!r}\n{MODULES}")
    assert (done.returncode, done.stdout[-9:]) == (0, "imported\n"), done.stderr[-2000:]
