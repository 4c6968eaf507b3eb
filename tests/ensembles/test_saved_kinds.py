"""The fixed list of what a saved model may consist of: complete for what is saved, closed for everything else."""

from __future__ import annotations

import inspect
import json
import re
import sys
import types
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.actions import tensor_product
from equitangents.actions.subset import ActionSubset
from equitangents.ensembles.saved_objects import FITS, EncodedValue, _load, build, kinds, name_of
from equitangents.errors import InvalidArgumentError, InvalidTypeError, StoreError
from equitangents.nn.layer import Layer

TURNS = et.actions.image_rotations(4)
FLAT = nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=1.5), nn.Relu(), nn.Dense(1))
NETWORKS = [
    FLAT,
    nn.Sequential(nn.Conv(4, 3), nn.LeakyRelu(0.1), nn.AvgPool(2), nn.LayerNorm(), nn.GlobalAvgPool(), nn.Dense(2)),
    nn.Sequential(nn.Conv(4, (3, 1), padding="valid"), nn.Polynomial((0.0, 1.0, 0.5)), nn.Flatten(), nn.Dense(1)),
    nn.Sequential(nn.Parallel([nn.Dense(3), nn.Erf()], nn.Dense(3)), nn.Sum(), nn.Residual(nn.Dense(3)), nn.Dense(1)),
    nn.Sequential(nn.Aggregate(np.eye(3)), nn.Dense(4), nn.Gelu(), nn.Attention(4), nn.Flatten()),
    nn.Sequential(nn.Lift(TURNS, 3, (3, 3)), nn.GroupConv(3), nn.GroupPool(TURNS.group.subgroup([0, 2])), nn.Flatten()),
    nn.Sequential(nn.SphereLift(et.groups.so3(4), 2), nn.Erf(), nn.GroupConv(2), nn.GroupPool()),
    nn.Sequential(nn.PointCloud("O(3)"), nn.SteerableConv("4x0e+2x1o", (1.0, 2.0), 0.5), nn.NormNonlinearity(jnp.tanh)),
]
GROUPS = [
    et.groups.cyclic(3), et.groups.dihedral(4), et.groups.quaternion(), et.groups.symmetric(4), et.groups.octahedral(),
    et.groups.direct_product(et.groups.cyclic(2), et.groups.dihedral(3)), et.groups.so3(3), et.groups.so2(2),
    et.groups.translations((3, 4)), et.groups.wallpaper(4, True, (4, 4)),
]  # fmt: skip
ACTIONS = [
    TURNS, et.actions.image_rotations(8), et.actions.ring_rotations(6), et.actions.trivial(GROUPS[0]),
    et.actions.permutations(GROUPS[3], np.array([GROUPS[3].element(g) for g in range(24)])), et.actions.grid(GROUPS[9]),
    tensor_product(TURNS, et.actions.linear(TURNS.group, [np.eye(2)] * 4)), et.actions.subset(TURNS, [0, 2]),
]  # fmt: skip


def again(value):
    described = EncodedValue(value)
    return build(json.loads(json.dumps(described.tree)), described.arrays.__getitem__)


@pytest.mark.parametrize("value", [*GROUPS, *ACTIONS], ids=repr)
def test_groups_and_actions_come_back(value):
    found = again(value)
    if isinstance(value, ActionSubset):
        assert found.action == value.action
        assert found.elements.tolist() == value.elements.tolist()
    else:
        assert found == value
        assert hash(found) == hash(value)


@pytest.mark.parametrize("net", NETWORKS[:7], ids=lambda net: type(net.layers[0]).__name__)
def test_networks_come_back(net):
    assert again(net) == net


def test_a_layer_with_a_function_of_ones_own_is_no_part_of_a_saved_model():
    for layer in (NETWORKS[7], nn.Elementwise(jnp.tanh)):
        with pytest.raises(InvalidTypeError, match="cannot be saved"):
            EncodedValue(layer)


def test_every_layer_is_on_the_list():
    layers = [getattr(nn, name) for name in nn.__all__]
    assert all(name_of(each) in kinds() for each in layers if inspect.isclass(each) and issubclass(each, Layer))


def test_the_list_names_classes_of_this_package_that_run_no_commands():
    for name, place in kinds().items():
        assert place.split(".")[0] == "equitangents"
        assert place.split(".")[1] not in {"audit", "cli", "studies", "systems", "baselines", "testing", "data"}
        if not name.startswith("torch."):
            assert name_of(_load(place)) == name
    assert set(FITS) <= set(kinds())


def test_a_model_is_read_after_its_classes_have_moved(tmp_path, monkeypatch):
    model = et.InfiniteEnsemble(FLAT, ridge=1e-2).fit(X, Y)
    model.save(tmp_path / "m")
    assert "equitangents.nn.nonlinearities" not in json.dumps(described(tmp_path / "m"))
    moved = types.ModuleType("elsewhere")
    moved.Relu = type("Relu", (nn.Relu,), {"__module__": "elsewhere"})
    monkeypatch.setitem(sys.modules, "elsewhere", moved)
    monkeypatch.setitem(kinds(), "nn.Relu", "elsewhere:Relu")
    found = et.InfiniteEnsemble.load(tmp_path / "m")
    assert type(found.net.layers[2]) is moved.Relu
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


def described(path):
    """The JSON of a saved model."""
    with zipfile.ZipFile(path / "model.npz") as archive:
        return json.loads(archive.read("model.json"))


def signed(path, content):
    """Give a saved model another JSON, with its checksum, as anybody can."""
    with zipfile.ZipFile(path / "model.npz") as archive:
        others = {name: archive.read(name) for name in archive.namelist() if name != "model.json"}
    with zipfile.ZipFile(path / "model.npz", "w") as archive:
        archive.writestr("model.json", json.dumps(content))
        for name, array in others.items():
            archive.writestr(name, array)


def thing(name, **state):
    return {"is": "object", "number": 99, "class": name, "state": [*map(list, state.items())]}


FOREIGN = thing(
    "equitangents.audit.adapters.callables:CallableModel", function={"is": "list", "items": ["touch", "planted"]}
)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 3, 3, 1)), RNG.normal(size=(5, 1))


class TestAStrangersModel:
    @pytest.fixture
    def model(self, tmp_path):
        et.InfiniteEnsemble(FLAT, ridge=1e-2).fit(X, Y).save(tmp_path / "m")
        return tmp_path / "m", described(tmp_path / "m")

    @pytest.mark.parametrize(
        ("planted", "message"),
        [
            (FOREIGN, "'equitangents.audit.adapters.callables:CallableModel' is not a class that is saved"),
            (thing("nn.Relu", predict=FOREIGN), "is not a class that is saved"),
            (thing("nn.Relu", predict=1), "Relu has no attribute 'predict'"),
            (thing("nn.Dense", channels="1"), "channels of Dense is of type str; expected int"),
            (thing("nn.Scale", factor={"is": "class", "name": "nn.Scale"}), "'class' is not a known kind of value"),
            (thing("nn.Scale"), "Scale lacks 'factor'"),
            ({"is": "shell"}, "'shell' is not a known kind of value"),
            ({"is": "dict", "items": [["predict", FOREIGN]]}, "is not a class that is saved"),
            ({"is": "dict", "items": [["predict", 3]]}, "InfiniteEnsemble has no attribute 'predict'"),
            ({"is": "dict", "items": [["time", "3"]]}, "time of InfiniteEnsemble is of type str; expected float"),
        ],
    )
    def test_is_refused_where_anything_is_planted(self, model, planted, message):
        path, content = model
        signed(path, content | {"state": planted})
        with pytest.raises(StoreError, match=re.escape(message)) as error:
            et.InfiniteEnsemble.load(path)
        assert "\n" not in str(error.value)

    def test_that_names_a_folder_for_factors_has_nothing_written_there(self, tmp_path):
        solver = et.solvers.OutOfCore(path=tmp_path / "factors")
        assert again(solver).path is None
        (tmp_path / "factors" / "0").mkdir(parents=True)
        (tmp_path / "factors" / "0" / "factor.json").write_text("{}")
        assert again(solver) == solver


@pytest.fixture(scope="module")
def fitted():
    model = et.DeepEnsemble(FLAT, members=2, optimizer="gd", epochs=1)
    return model.fit(X, Y, record={"x": X}, record_at=[1])


class TestAModelOfFiniteNetworks:
    @pytest.fixture
    def model(self, fitted, tmp_path):
        fitted.save(tmp_path / "m")
        return tmp_path / "m", described(tmp_path / "m")

    @staticmethod
    def without(model, *names):
        path, content = model
        items = [item for item in content["state"]["items"] if item[0] not in names]
        assert len(items) == len(content["state"]["items"]) - len(names)
        signed(path, content | {"state": content["state"] | {"items": items}})
        return path

    @pytest.mark.parametrize("name", ["history_", "n_outputs_", "sample_shape_", "params0_", "_variation", "_chunk"])
    def test_that_lacks_what_predictions_need_is_refused(self, model, name):
        with pytest.raises(StoreError, match=f"{name} is missing"):
            et.DeepEnsemble.load(self.without(model, name))

    def test_that_was_saved_knows_what_it_recorded(self, model):
        with pytest.raises(
            InvalidArgumentError, match=r"record is .*; expected the names and inputs that fit was given"
        ):
            et.DeepEnsemble.load(model[0]).extend(3, X, Y, record={"x": X + 1})
