"""Ensembles of PyTorch modules: a member is the module trained alone by plain PyTorch, however it is trained here."""

import logging
import sys
from functools import partial

import numpy as np
import pytest
import torch

import equitangents as et
from equitangents.torch import member_seeds

SAMPLES, SIZE, EPOCHS, RATE = 7, 3, 3, 0.1


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def with_batch_norm():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def with_dropout():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.4), torch.nn.Tanh(), torch.nn.Linear(8, 2))


class Branching(torch.nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        return y if y.sum() > 0 else 2 * y


class Counting(torch.nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Drawing(torch.nn.Linear):
    def forward(self, x):
        return super().forward(torch.nn.functional.dropout(x, 0.5, self.training))


def alone(factory, x, y, member, optimizer, seed=5, loss=None, batch=SIZE):
    """A module trained by an ordinary loop."""
    loss = loss or (lambda f, y: 0.5 * ((f - y) ** 2).sum(1).mean())
    seeds = member_seeds(seed, member)
    torch.manual_seed(seeds.init)
    module = factory().train()
    optimiser = optimizer(module.parameters())
    generator = torch.Generator().manual_seed(seeds.order)
    torch.manual_seed(seeds.noise)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=generator).split(batch):
            optimiser.zero_grad()
            loss(module(x[rows]), y[rows]).backward()
            optimiser.step()
    return module.eval()


@pytest.fixture
def xy(rng):
    return rng.normal(size=(SAMPLES, 3)).astype(np.float32), rng.normal(size=(SAMPLES, 2)).astype(np.float32)


def ensemble(factory, members=3, **settings):
    given = {"epochs": EPOCHS, "batch_size": SIZE, "learning_rate": RATE, "seed": 5}
    return et.torch.Ensemble(factory, members, **given | settings)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=RATE),
    "momentum": lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=RATE),
}


@pytest.mark.parametrize(
    ("factory", "optimizer"),
    [(mlp, "sgd"), (mlp, "adam"), (with_batch_norm, "momentum"), (with_batch_norm, "adam"), (with_dropout, "sgd")],
)
def test_a_member_is_the_module_trained_alone_on_the_same_batches(factory, optimizer, xy):
    x, y = xy
    x, y = np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]])  # 9 samples: no batch of one
    model = ensemble(factory, optimizer=optimizer).fit(x, y)
    module = alone(factory, torch.from_numpy(x), torch.from_numpy(y), 2, OPTIMIZERS[optimizer])
    with torch.inference_mode():
        expected = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(model.predict_members(x)[2], expected, rtol=1e-4, atol=1e-5)
    for name, value in module.state_dict().items():  # batch statistics among them
        np.testing.assert_allclose(model.params_[name][2], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (mlp, None),
        (with_batch_norm, r"layer '1' \(BatchNorm1d\) keeps running statistics"),
        (with_dropout, r"layer '1' \(Dropout\) draws random numbers"),
        (partial(Branching, 3, 2), "torch.func cannot map it over members"),
        (partial(Counting, 3, 2), "buffer 'calls' changes in training"),
        (partial(Drawing, 3, 2), "torch.func cannot map it over members: .*random"),
    ],
)
def test_how_members_were_trained_and_why_stands_in_attributes_and_in_the_log(factory, said, xy, caplog):
    with caplog.at_level(logging.INFO, "equitangents"):
        model = ensemble(factory, batch_size=None).fit(*xy)
    assert model.trained_by_ == ("torch.func" if said is None else "one after another")
    if said is None:
        assert model.reason_ is None
        assert "together, by torch.func" in caplog.text
        return
    assert model.reason_ in caplog.text
    with pytest.raises(ValueError, match=f"for this module; .*{said}"):
        ensemble(factory, method="torch.func").fit(*xy)


def test_together_and_in_turn_give_the_same_members(xy):
    x, _ = xy
    together = ensemble(mlp, 5, members_per_chunk=2).fit(*xy)
    in_turn = ensemble(mlp, 5, method="in turn").fit(*xy)
    assert (together.trained_by_, in_turn.trained_by_) == ("torch.func", "one after another")
    np.testing.assert_allclose(together.predict_members(x), in_turn.predict_members(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(together.history_, in_turn.history_, rtol=1e-5)
    assert together.history_.shape == (EPOCHS, 5)


def test_an_optimizer_that_mixes_entries_is_used_one_after_another(xy):
    class Mixing(torch.optim.SGD):
        pass

    given = lambda p: Mixing(p, lr=RATE)
    model = ensemble(mlp, optimizer=given).fit(*xy)
    assert "optimizer Mixing does not treat" in model.reason_
    elementwise = ensemble(mlp, optimizer=OPTIMIZERS["sgd"]).fit(*xy)
    assert elementwise.reason_ is None
    np.testing.assert_allclose(model.predict(xy[0]), elementwise.predict(xy[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("factory", [mlp, with_dropout])
def test_extending_is_training_more_from_the_start_and_saving_keeps_all(factory, xy, tmp_path):
    x, y = xy
    whole, longer = ensemble(factory, 4).fit(x, y), ensemble(factory, 2).fit(x, y)
    before = longer.predict_members(x)
    longer.extend(4, x, y)
    np.testing.assert_array_equal(longer.predict_members(x)[:2], before)
    np.testing.assert_allclose(longer.predict_members(x), whole.predict_members(x), rtol=1e-5, atol=1e-6)
    assert longer.history_.shape == (EPOCHS, 4)
    with pytest.raises(ValueError, match="X \\(after augmentation\\)"):
        longer.extend(5, x + 1, y)
    whole.save(tmp_path / "saved")
    again = et.torch.Ensemble.load(tmp_path / "saved", factory=factory)
    np.testing.assert_array_equal(again.predict_members(x), whole.predict_members(x))
    ensemble(lambda: mlp(), 1).fit(x, y).save(tmp_path / "saved")
    with pytest.raises(ValueError, match="load\\(path, factory="):
        et.torch.Ensemble.load(tmp_path / "saved")
    assert len(et.torch.Ensemble.load(tmp_path / "saved", factory=mlp).predict_members(x)) == 1


def test_a_seed_gives_the_same_members_and_leaves_pytorchs_own_numbers_alone(xy):
    x, y = xy
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = ensemble(with_dropout).fit(x, y).predict(x)
    assert torch.equal(torch.rand(2), expected)
    np.testing.assert_array_equal(ensemble(with_dropout).fit(x, y).predict(x), first)
    assert not np.allclose(ensemble(with_dropout, seed=6).fit(x, y).predict(x), first)


def test_predictions_are_the_mean_and_spread_of_members(xy):
    x, y = xy
    model = ensemble(mlp).fit(x, y)
    outputs = model.predict_members(x)
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(mean, outputs.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std, outputs.std(0, ddof=1), rtol=1e-4)
    assert model.predict(x, return_cov=True)[1].shape == (SAMPLES, SAMPLES, 2)
    with torch.inference_mode():
        np.testing.assert_allclose(model.member(1)(torch.from_numpy(x)), outputs[1], rtol=1e-5, atol=1e-6)


class Convolutional(torch.nn.Module):
    def __init__(self, outputs=1):
        super().__init__()
        self.conv, self.last = torch.nn.Conv2d(2, 6, 3, padding=1), torch.nn.Linear(6 * 16, outputs)

    def forward(self, x):
        assert x.shape[1:] == (2, 4, 4)
        return self.last(torch.relu(self.conv(x)).flatten(1))


def test_augmented_members_are_more_equivariant_in_the_mean_and_are_measured_planned_and_audited(rng):
    images, y, new = rng.normal(size=(10, 4, 4, 2)), rng.normal(size=10), rng.normal(size=(20, 4, 4, 2))
    turns = et.actions.image_rotations(4)
    settings = {"epochs": 20, "batch_size": 20, "learning_rate": 0.02}
    model = et.torch.Ensemble(Convolutional, 30, turns, **settings).fit(images, y)
    error = lambda f: et.metrics.equivariance_error(f, turns, new).mean
    members = [error(lambda x, i=i: model.predict_members(x)[i, :, 0]) for i in range(3)]
    assert error(model.predict) < 0.5 * min(members)
    assert et.plan_ensemble(model, turns, new, target=0.5, draws=50).pilot.members == 30
    unfitted = et.torch.Ensemble(Convolutional, augmentation=turns, **settings)
    assert et.plan_ensemble(unfitted, turns, new, target=0.5, data=(images, y), pilot=3, draws=50).pilot.members == 3
    report = et.audit(model, turns, new)
    assert "members" in report.summary()


def test_a_classifier_predicts_probabilities_of_labels(rng):
    images, labels = rng.normal(size=(9, 4, 4, 2)), list("abcabcabc")
    model = et.torch.EnsembleClassifier(lambda: Convolutional(3), 3, "C4", epochs=2).fit(images, labels)
    probabilities = model.predict_proba(images)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    assert set(model.predict(images)) <= set("abc")
    assert 0 <= model.score(images, labels) <= 1


def test_images_come_as_they_are_where_the_layout_says_so(rng):
    class Last(torch.nn.Linear):
        def forward(self, x):
            assert x.shape[1:] == (4, 5, 2)
            return super().forward(x).mean((1, 2))

    model = et.torch.Ensemble(partial(Last, 2, 1), 2, epochs=1, layout="channels_last")
    assert model.fit(rng.normal(size=(5, 4, 5, 2)), np.zeros(5)).predict(rng.normal(size=(3, 4, 5, 2))).shape == (3,)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"factory": mlp()}, "such as lambda: Net"),
        ({"factory": 3}, "expected a function without arguments"),
        ({"factory": lambda: 3}, "factory made a int; expected a torch.nn.Module"),
        ({"factory": lambda: torch.nn.Linear(4, 2)}, "fails on inputs of shape"),
        ({"factory": lambda: torch.nn.Linear(3, 1)}, r"module gives outputs of shape \(2, 1\); expected \(2, 2\)"),
        ({"optimizer": "lbfgs"}, "optimizer is 'lbfgs'"),
        ({"layout": "NCHW"}, "layout is 'NCHW'"),
        ({"members": 0}, "members is 0"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, said, xy):
    with pytest.raises((ValueError, TypeError), match=said):
        ensemble(mlp).set_params(**settings).fit(*xy)


def test_without_pytorch_the_error_says_what_to_install(xy, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'equitangents\[torch\]'"):
        ensemble(mlp).fit(*xy)


def test_standardised_members_have_no_unit(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6.0)
    made = {"members": 2, "epochs": 2, "dtype": "float64", "standardise": True}
    make = lambda: et.torch.Ensemble(lambda: torch.nn.Linear(3, 1), **made)
    here, there = make().fit(x, y), make().fit(255 * x + 9, y)
    np.testing.assert_allclose(there.predict(255 * x + 9), here.predict(x), rtol=1e-9)
    there.save(tmp_path / "m")
    loaded = et.torch.Ensemble.load(tmp_path / "m", factory=there.factory)
    np.testing.assert_array_equal(loaded.predict(x), there.predict(x))
