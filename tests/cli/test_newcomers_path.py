"""What a newcomer meets: wrong words told at once, in the command's own; percentages; a line from the first second."""

from __future__ import annotations

import io
import json
import logging
import pickle
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.cli.audit import LIMITS
from equitangents.cli.common import announced, stages
from equitangents.cli.completion import numbers
from equitangents.cli.main import by_option, main
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.model_files import check_model

MODULE = """
import numpy as np


def pooled(x):
    return np.asarray(x).sum((1, 2)) ** 2


def nearly(x):
    return np.asarray(x).sum((1, 2)) + 100 + np.asarray(x)[:, 0, 0]
"""
LIGHT = """
import json, sys
from equitangents.cli.main import main

told = []
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as stop:
        told.append([stop.code, [m for m in ("jax", "torch", "onnxruntime", "ase", "scipy") if m in sys.modules]])
print(json.dumps(told))
"""
WRONG = {
    "model is 'no.onnx'; expected a file": ["no.onnx"],
    "model is 'no.pt2'; expected a file": ["no.pt2"],
    "not tensors alone": ["weights.pt"],
    "it is a pickle": ["model.pkl"],
    "no module named 'no_such_module'": ["no_such_module:f"],
    "data is 'no.npz'; expected a file": ["newcomers_models:pooled", "--data", "no.npz"],
    "is text, which is neither": ["newcomers_models:pooled", "--data", "newcomers_models.py"],
    "baseline is 'no.json'; expected a file": ["newcomers_models:pooled", "--baseline", "no.json"],
    "expected a file that can be written": ["newcomers_models:pooled", "--html", "newcomers_models.py/a.html"],
    "group is 'Q8'": ["newcomers_models:pooled", "--group", "Q8"],
    "layout is 'NCHW'": ["newcomers_models:pooled", "--layout", "NCHW"],
    "relative-to is 'mean'": ["newcomers_models:pooled", "--relative-to", "mean"],
    "effort is 'fast'": ["newcomers_models:pooled", "--effort", "fast"],
    "--elements is 0": ["newcomers_models:pooled", "--elements", "0"],
    "--fail-above is 'five'": ["newcomers_models:pooled", "--fail-above", "five"],
    "a kind for each of": ["newcomers_models:pooled", "--data", "three.npz", "--inputs", "vectors,none"],
}
ATOMS = {
    "structures is 'no.xyz'; expected a file": ["no.xyz", "--calculator", "newcomers_models:pooled"],
    "calculator is 'pooled'": ["newcomers_models.py", "--calculator", "pooled"],
}
WEIGHTS = b"\x80\x02ccollections\nOrderedDict\nctorch._utils\n_rebuild_tensor_v2\nctorch\nFloatStorage\n."
NETWORK = b"\x80\x02ctorch.nn.modules.linear\nLinear\nctorch._utils\n_rebuild_tensor_v2\n."


def archive(path: str, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(f"archive/{name.replace('__', '/').replace('_py', '.py').replace('_pkl', '.pkl')}", content)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("newcomers_models.py").write_text(MODULE)
    np.savez("images.npz", x=np.random.default_rng(0).normal(size=(20, 4, 4, 1)))
    np.savez("three.npz", a=np.ones((4, 3)), b=np.ones(4), c=np.ones(4))
    Path("model.pkl").write_bytes(pickle.dumps(3))
    archive("weights.pt", data_pkl=WEIGHTS)
    return tmp_path


def test_wrong_words_are_told_before_anything_heavy_is_imported(folder: Path) -> None:
    with_the_rest = lambda words: [
        *words,
        *(() if "--data" in words else ("--data", "images.npz")),
        *(() if "--group" in words else ("--group", "C4")),
    ]
    runs = [["audit", *with_the_rest(words)] for words in WRONG.values()]
    runs += [["audit-potential", *words] for words in ATOMS.values()]
    ran = subprocess.run([sys.executable, "-c", LIGHT, json.dumps(runs)], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [[2, []]] * len(runs)
    lines = ran.stderr.splitlines()
    assert len(lines) == len(runs)
    for said, line in zip((*WRONG, *ATOMS), lines, strict=True):
        assert line.startswith("equitangents: ")
        assert said in line


def test_what_a_file_of_weights_holds_is_known_without_unpickling_it(folder: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"state_dict.*module:net.*\.pt2"):
        check_model("weights.pt", trust=True)
    archive("whole.pt", data_pkl=NETWORK)
    with pytest.raises(InvalidArgumentError, match="--trust"):
        check_model("whole.pt")
    assert check_model("whole.pt", trust=True) == "pickle"
    archive("script.pt2", data_pkl=WEIGHTS, code__net_py=b"")
    archive("exported.pt", archive_format=b"pt2", data__weights__weight_0=b"")
    assert (check_model("script.pt2"), check_model("exported.pt")) == ("script", "exported")
    before = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    Path("old.pth").write_bytes(before + WEIGHTS)  # as torch.save wrote before it wrote archives
    with pytest.raises(InvalidArgumentError, match="not tensors alone"):
        check_model("old.pth")
    for content in (b"", b"text", b"\x80\x04no pickle", before[:20]):
        Path("broken.pt").write_bytes(content)
        with pytest.raises(InvalidArgumentError, match="--trust"):
            check_model("broken.pt")


OPTION = SimpleNamespace(opts=["--fail-above"])
limits = partial(LIMITS, OPTION)


@given(st.integers(0, 10**6))
def test_percentages_are_shares(millionths: int) -> None:
    percent, plain = f"{millionths / 10**4}%", str(millionths / 10**6)
    assert limits(percent) == pytest.approx(limits(plain), rel=1e-12)
    assert limits(f"a={percent},b={plain}") == pytest.approx({"a": millionths / 10**6, "b": millionths / 10**6})


@pytest.mark.parametrize(
    "text", ["", "%", "5%%", "five", "nan", "nan%", "inf", "-1", "-5%", "0.1,0.2", "a=", "=5%", "5 % of"]
)
def test_a_limit_that_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        limits(text)
    with pytest.raises(InvalidArgumentError):
        numbers("a share", lambda share: 0 <= share <= 1, by_name=False)(OPTION, text)


def test_errors_name_the_command_s_own_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("first.npy", np.zeros((5, 3, 8, 8)))
    with pytest.raises(SystemExit) as stop:
        main(["audit", "newcomers_models:pooled", "--data", "first.npy", "--group", "C4"])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    assert "--layout is None; expected 'channels_first' or 'channels_last'" in said


def test_an_error_of_an_argument_names_the_option_of_that_name() -> None:
    options = {"learning_rate": "--learning-rate", "seed": "--seed", "X": "x"}
    found = InvalidArgumentError("learning_rate", 0.0, "a positive number", "or leave seed= out")
    assert str(found) == "learning_rate is 0.0; expected a positive number; or leave seed= out"
    assert by_option(found, options) == "--learning-rate is 0.0; expected a positive number; or leave seed= out"
    assert by_option(found, {}) == str(found)
    assert by_option(ShapeError("X", (3,), "(N, channels)"), options) == "x has shape (3,); expected (N, channels)"
    for message, words in (
        ("learning_rate is 0.0; it must", "--learning-rate is 0.0; it must"),
        ("seed is 'a', and layout is 'b'", "--seed is 'a', and layout is 'b'"),
        ("seeds is 3", "seeds is 3"),
        ("seed", "seed"),
        ("X holds NaN", "x holds NaN"),
        ("np.savez('x', seed='y')", "np.savez('x', seed='y')"),
    ):
        assert by_option(InvalidArgumentError(message), options) == words


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_being_done_from_the_first_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(SystemExit):
        main(["audit", "newcomers_models:pooled", "--data", "images.npz", "--group", "C4", "--effort", "quick"])
    drawn = screen.getvalue().split("\r\033[K")
    wanted = ["reading images.npz …", "importing JAX …", "loading newcomers_models:pooled …", "evaluating pooled …"]
    assert drawn[:5] == ["", *wanted]
    assert drawn[-1] == "", "the line is taken off"


def test_what_is_announced_takes_the_line_off_first(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with stages() as stage, announced("equitangents.audit.layouts", err=True):
        stage("loading")
        logging.getLogger("equitangents.audit.layouts").info("layout: channels_first")
        stage("evaluating")
    assert screen.getvalue() == "\r\033[Kloading …\r\033[Klayout: channels_first\n\r\033[Kevaluating …\r\033[K"
