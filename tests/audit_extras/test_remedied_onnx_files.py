"""ONNX files with the averaging inside whose batch is not along the first axis, as recurrent networks have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import equitangents as et
from equitangents.errors import ShapeError

RNG = np.random.default_rng(0)
STEPS, ROWS = 5, 6
QUIET = {"effort": "quick", "off_data": False, "data_test": None}


def sequence_file(path: Path, features: int, batch: int | str = "batch") -> str:
    """Two outputs of sequences (steps, batch, features): a state a step, batch along axis 1, and (batch, features)."""
    weights = RNG.normal(size=(features, features)).astype(np.float32)
    value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    nodes = [
        helper.make_node("MatMul", ["sequence", "weights"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["states"]),
        helper.make_node("ReduceMean", ["states", "first"], ["whole"], keepdims=0),
    ]
    constants = {"weights": weights, "first": np.array([0], np.int64)}
    graph = helper.make_graph(
        nodes,
        "recurrent",
        [value("sequence", STEPS, batch, features)],
        [value("states", STEPS, batch, features), value("whole", batch, features)],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return str(path)


def initializers(path: str) -> Any:
    """The file's constants, its weights first."""
    return onnx.load(path).graph.initializer


CASES = {
    "vectors, turned by matrices": ("C4", "vectors", "vectors", 2),
    "channels, moved by a table": ("C4", et.audit.Labels([3, 0, 1, 2]), et.audit.Labels([3, 0, 1, 2]), 4),
    "steps, reversed": ("reversal", "sequences", None, 3),
}


@pytest.mark.parametrize(("group", "kind", "output", "features"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("batch", ["batch", ROWS])
def test_an_averaged_file_keeps_its_batch_where_it_was(
    tmp_path: Path, group: str, kind: Any, output: Any, features: int, batch: Any
) -> None:
    path = sequence_file(tmp_path / "sequences.onnx", features, batch)
    x = RNG.normal(size=(STEPS, ROWS, features)).astype(np.float32)
    states = "sequences" if group == "reversal" else output
    audit = lambda file: et.audit(
        file, group, et.audit.Batch(x, axis=1), {"states": et.audit.Batch(states, axis=1), "whole": output},
        inputs=kind, layout="channels_last", **QUIET,
    )  # fmt: skip
    report = audit(path)
    written = report.remedy("average", tmp_path / "averaged.onnx")
    assert audit(str(written)).verdict == "equivariant"
    assert report.verdict == ("equivariant" if group == "reversal" else "broken")
    found = onnxruntime.InferenceSession(str(written), providers=["CPUExecutionProvider"]).run(None, {"sequence": x})
    function = report.remedy("average", form="function")(x)
    assert [y.shape for y in found] == [(STEPS, ROWS, features), (ROWS, features)]
    for name, y in zip(["states", "whole"], found, strict=True):
        np.testing.assert_allclose(y, function[name], atol=1e-6)


def test_a_file_of_one_batch_size_along_another_axis_takes_any_number_of_inputs(tmp_path: Path) -> None:
    path = sequence_file(tmp_path / "fixed.onnx", 2, 4)
    x = RNG.normal(size=(STEPS, ROWS, 2)).astype(np.float32)
    kinds = {"states": et.audit.Batch("vectors", axis=1), "whole": "vectors"}
    given = lambda a: et.audit(path, "C4", et.audit.Batch(a, axis=1), kinds, inputs="vectors", **QUIET)
    report = given(x)
    literal = np.tanh(x @ numpy_helper.to_array(initializers(path)[0]))
    assert report.verdict == "broken"
    assert report.remedy("average")(x)["states"].shape == literal.shape
    moved = np.tanh(np.stack([-x[..., 1], x[..., 0]], axis=-1) @ numpy_helper.to_array(initializers(path)[0]))
    back = np.stack([moved[..., 1], -moved[..., 0]], axis=-1)
    off = np.linalg.norm(back - literal, axis=(0, 2)) / np.linalg.norm(literal, axis=(0, 2))
    assert report.contract.outputs[0].error.mean > 0
    np.testing.assert_allclose(report.errors.shape, (3, ROWS))
    assert (report.errors[0] >= off - 1e-5).all(), "the error of an input is the largest over the outputs"
    pair = et.audit([path, path], "C4", et.audit.Batch(x, axis=1), kinds, inputs="vectors", **QUIET)
    np.testing.assert_allclose(pair.errors, report.errors, rtol=1e-4)
    with pytest.raises(ShapeError, match=r"x has shape \(6, 6, 2\); expected \(5, N, 2\) for 'sequence'"):
        given(RNG.normal(size=(STEPS + 1, ROWS, 2)).astype(np.float32))
