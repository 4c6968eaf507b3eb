"""Outputs as model hubs return them: dictionaries of other classes, dataclasses, named tuples; and one of several."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import equitangents as et

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4, 4, 1))
ALONE = {"off_data": False, "data_test": None, "resamples": 50}


class ModelOutput(OrderedDict):
    """Entries that are attributes, too, and positions: as model hubs build their outputs."""

    def __post_init__(self) -> None:
        for name, value in vars(self).copy().items():
            if value is not None:
                OrderedDict.__setitem__(self, name, value)

    def __getitem__(self, k: Any) -> Any:
        return dict(self.items())[k] if isinstance(k, str) else tuple(self.values())[k]


@dataclass
class ClassifierOutput(ModelOutput):
    loss: Any = None
    logits: Any = None
    hidden_states: Any = None


@dataclass
class Plain:
    logits: Any
    features: Any = None
    loss: Any = None


Named = namedtuple("Named", ["logits", "features"])


def logits(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).reshape(len(x), -1)[:, :3] + 4


def features(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).sum((1, 2)) + 9


OUTPUTS = {
    "model output": lambda x: ClassifierOutput(logits=logits(x), hidden_states=(features(x), features(x))),
    "dataclass": lambda x: Plain(logits(x), features(x)),
    "named tuple": lambda x: Named(logits(x), features(x)),
    "dictionary": lambda x: {"logits": logits(x), "features": features(x)},
    "ordered": lambda x: OrderedDict(logits=logits(x), features=features(x)),
    "user": lambda x: UserDict(logits=logits(x), features=features(x), loss=None),
}


@pytest.mark.parametrize("f", OUTPUTS.values(), ids=OUTPUTS)
def test_outputs_of_other_classes_are_audited_by_name(f: Any) -> None:
    alone = et.audit(logits, "C4", X, **ALONE)
    chosen = et.audit(f, "C4", X, select="logits", **ALONE)
    np.testing.assert_array_equal(chosen.errors, alone.errors)
    assert chosen.orbit.same_predictions == alone.orbit.same_predictions
    assert len(chosen.contract.outputs) == 1
    every = et.audit(f, "C4", X, **ALONE)
    assert len(every.contract.outputs) >= 2
    assert every.verdict == "broken"
    with pytest.raises(et.errors.InvalidArgumentError, match=r"select is 'logit'; f\(x\) has the outputs 'logits', '"):
        et.audit(f, "C4", X, select="logit", **ALONE)


def test_what_is_no_array_does_not_matter_unless_it_is_selected() -> None:
    f = lambda x: ClassifierOutput(loss=np.float64(0.3), logits=logits(x), hidden_states=object())
    assert et.audit(f, "C4", X, select="logits", **ALONE).verdict == "broken"
    with pytest.raises(et.errors.EquitangentsError, match=r"f\(x\)\['hidden_states'\].*select="):
        et.audit(f, "C4", X, **ALONE)


def test_outputs_within_outputs_and_by_position() -> None:
    f = OUTPUTS["model output"]
    inner = et.audit(f, "C4", X, select="hidden_states.1", **ALONE)
    assert inner.verdict == "equivariant"
    for select, alone in ((0, logits), (1, features)):
        report = et.audit(lambda x: (logits(x), features(x)), "C4", X, select=select, **ALONE)
        np.testing.assert_array_equal(report.errors, et.audit(alone, "C4", X, **ALONE).errors)
    spaces = et.audit(lambda x: SimpleNamespace(logits=logits(x)), "C4", X, select="logits", **ALONE)
    assert spaces.verdict == "broken"


@pytest.mark.parametrize(
    ("f", "select", "said"),
    [
        (logits, "logits", "is one output without a name"),
        (lambda x: (logits(x), features(x)), "logits", "has 2 outputs without names"),
        (lambda x: (logits(x), features(x)), 2, "position from 0 to 1"),
        (OUTPUTS["dataclass"], "loss", "has the outputs 'logits', 'features'"),
    ],
)
def test_an_output_that_is_not_there_is_refused(f: Any, select: Any, said: str) -> None:
    with pytest.raises(et.errors.InvalidArgumentError, match=said):
        et.audit(f, "C4", X, select=select, **ALONE)


def test_two_outputs_of_one_name_are_refused() -> None:
    with pytest.raises(
        et.errors.InvalidArgumentError, match=r"outputs \[1, '1'\]; expected names of outputs that differ"
    ):
        et.audit(lambda x: {1: logits(x), "1": features(x)}, "C4", X, **ALONE)


def test_select_is_a_name_or_a_position() -> None:
    with pytest.raises(et.errors.InvalidTypeError, match=r"select is 1\.5; expected the name"):
        et.audit(logits, "C4", X, select=1.5, **ALONE)


def test_members_are_selected_from_too() -> None:
    f = OUTPUTS["model output"]
    report = et.audit([f, lambda x: f(2 * x)], "C4", X, select="logits", **ALONE)
    assert report.ensemble.members == 2


def test_inputs_of_other_classes_are_dictionaries() -> None:
    f = lambda batch: logits(batch["pixels"])
    report = et.audit(f, "C4", UserDict(pixels=X), inputs={"pixels": "images"}, **ALONE)
    np.testing.assert_array_equal(report.errors, et.audit(logits, "C4", X, **ALONE).errors)


def test_select_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("hub_model.py").write_text(
        "def f(x):\n    return {'logits': x.reshape(len(x), -1)[:, :3] + 4, 'pooled': x.sum((1, 2)) + 9}\n"
        "def g(x):\n    return tuple(f(x).values())\n"
    )
    np.save("x.npy", X)
    options = ["--data", "x.npy", "--group", "C4", "--on-data-only"]
    for model, select, said in (
        ("f", "logits", "broken "),
        ("f", "pooled", "equivariant: "),
        ("g", "1", "equivariant: "),
    ):
        status, out, _ = command("audit", f"hub_model:{model}", *options, "--select", select)
        assert (status, out[: len(said)]) == (0, said)
    status, out, err = command("audit", "hub_model:f", *options, "--select", "logit")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "has the outputs 'logits', 'pooled'" in err
