"""The network of escnn as a contender: it is trained in another interpreter, on what the study hands over."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from equitangents_studies.contenders import Problem
from equitangents_studies.contenders.networks import count_parameters
from equitangents_studies.contenders.registry import group_convolutional

PEER = """
import json, sys
import numpy as np
for line in sys.stdin:
    request = json.loads(line)
    if "fit" in request:
        with np.load(request["fit"]) as arrays:
            x, y = arrays["x"], arrays["y"]
        assert x.dtype == np.float32
        means = np.stack([x[y == k].mean(0) for k in range(request["spec"]["classes"])])
        print(json.dumps({"parameters": request["spec"]["parameters"] + 1}), flush=True)
    else:
        with np.load(request["predict"]) as arrays:
            distances = ((arrays["x"][:, None] - means) ** 2).sum((2, 3, 4))
        np.save(request["into"], -distances)
        print("{}", flush=True)
"""


@pytest.fixture
def contender(monkeypatch, tmp_path):
    module = importlib.import_module("benchmarks.escnn_contender")
    monkeypatch.setattr(module, "PEER", tmp_path / "peer.py")
    monkeypatch.setenv(module.VARIABLE, sys.executable)
    return module


PROBLEM = Problem("C4", (4, 4, 1), 2, channels=(2, 3), epochs=7, batch=5, seed=3)


def test_it_is_trained_and_asked_in_another_process(contender):
    contender.PEER.write_text(PEER)
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    x = rng.normal(0, 0.1, (20, 4, 4, 1)) + y[:, None, None, None]
    made = contender.Escnn(PROBLEM).fit(x, y)
    np.testing.assert_array_equal(made.predict(x).argmax(1), y)
    assert made.parameters == count_parameters(group_convolutional(PROBLEM), PROBLEM.shape) + 1


def test_it_is_told_the_sizes_of_our_network(contender):
    spec = contender.Escnn(PROBLEM).spec()
    assert (spec["order"], spec["convolutions"], spec["taps"]) == (4, 1, 3)
    assert (spec["epochs"], spec["batch"], spec["seed"], spec["classes"]) == (7, 5, 3, 2)


def test_an_interpreter_that_ends_says_which_variable_names_it(contender):
    contender.PEER.write_text("raise SystemExit(1)")
    with pytest.raises(RuntimeError, match="EQUITANGENTS_ESCNN_PYTHON names an interpreter"):
        contender.Escnn(PROBLEM).fit(np.zeros((2, 4, 4, 1)), np.arange(2))


def test_reflections_are_refused(contender):
    with pytest.raises(ValueError, match="rotations only"):
        contender.Escnn(Problem("D4", (4, 4, 1), 2))


def test_the_width_gives_the_nearest_number_of_parameters():
    peer = importlib.import_module("benchmarks.escnn_peer")
    sizes = {"lift": 6, "convolution": 24, "readout": 130, "convolutions": 2, "classes": 10}
    count = lambda w: w * 6 + 2 * w * w * 24 + w * 130 + 3 * w + 10
    for parameters in (1, 500, 3000, 20_000):
        found = peer.width_of(parameters, **sizes)
        assert found == min(range(1, 60), key=lambda w: abs(count(w) - parameters))


def test_the_table_says_whether_escnn_lies_within_our_interval(tmp_path):
    bench = importlib.import_module("benchmarks.bench_escnn")
    (tmp_path / "results").mkdir()
    rows = ["contender,measure,value,low,high,source"]
    for name, value in (("gcnn", 0.7), (bench.CONTENDER, 0.74)):
        rows += [f"{name},{m},{value},{value - 0.05},{value + 0.05}," for m in ("upright", "rotated")]
        rows += [f"{name},inside,{value},,,", f"{name},outside,{value},{value - 0.01},{value + 0.01},"]
    (tmp_path / "results" / "contenders.csv").write_text("\n".join(rows))
    pairs = f"measure,contender,other,difference,low,high\nrotated,gcnn,{bench.CONTENDER},-0.04,-0.06,-0.02\n"
    (tmp_path / "results" / "pairs.csv").write_text(pairs)
    (tmp_path / "results" / "costs.csv").write_text(f"contender,parameters\ngcnn,8610\n{bench.CONTENDER},8230\n")
    lines = bench.table(tmp_path).splitlines()
    assert "| parameters | 8,610 | 8,230 |" in lines[2]
    assert lines[4].startswith("| accuracy, all orientations | 0.70 (0.65 to 0.75) | 0.74 (0.69 to 0.79) | yes |")
    assert "| −0.040 (−0.060 to −0.020) |" in lines[4]
    assert "(no interval) | no |" in lines[5]
    assert " | no | " in lines[6]
