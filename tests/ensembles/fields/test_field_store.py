"""InfiniteEnsemble(store=…) on fields: the kernel between all points is kept, gone on with, and refused to others."""

import numpy as np
import pytest
import zarr

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels
from equitangents.ensembles.fields import store
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.errors import InvalidTypeError, StoreError
from permissions import public_folder, without_permission

NET = et.nn.Sequential(et.nn.Conv(1, (3, 3), b_std=0.1), et.nn.Relu(), et.nn.Conv(1, (3, 3)))
TURNS = et.actions.image_rotations(4)
RNG = np.random.default_rng(2)
X, Y, NEW = RNG.normal(size=(4, 3, 3, 1)), RNG.normal(size=(4, 3, 3, 2)), RNG.normal(size=(2, 3, 3, 1))


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    monkeypatch.setattr(store, "_POINTS", 9)  # one signal a tile


@pytest.mark.parametrize(
    ("augmentation", "solver"),
    [(None, "auto"), (None, "cholesky"), (None, et.solvers.Nystrom(rank=20)), (TURNS, "auto")],
)
def test_fields_fitted_with_a_store_are_those_without(tmp_path, augmentation, solver):
    settings = {"augmentation": augmentation, "ridge": 1e-2, "solver": solver}
    plain = et.InfiniteEnsemble(NET, **settings).fit(X, Y)
    kept = et.InfiniteEnsemble(NET, store=tmp_path / "k", **settings).fit(X, Y)
    assert not np.max(np.abs(kept.predict(NEW) - plain.predict(NEW))) > 1e-8
    held = zarr.open_group(tmp_path / "k", mode="r")["ntk"][:]
    if augmentation is None:
        literal = np.asarray(NET.kernel_field(X).ntk).reshape(36, 36)
        assert not np.max(np.abs(held - literal)) > 1e-13


def test_a_fit_that_was_stopped_goes_on_with_what_is_missing_and_the_next_reads_it(tmp_path, monkeypatch):
    plain, whole, calls = et.InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y), FieldKernel.kernel, []

    def stopping(self, a, b=None):
        calls.append(len(a))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(self, a, b)

    with monkeypatch.context() as patch:
        patch.setattr(FieldKernel, "kernel", stopping)
        with pytest.raises(KeyboardInterrupt):
            et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X, Y)
    kept = [(int(file.parent.name), int(file.name)) for file in (tmp_path / "k" / "ntk" / "c").glob("*/*")]
    assert sum(i <= j for i, j in kept) == 3
    calls[:] = [0] * 10  # no more stops
    monkeypatch.setattr(FieldKernel, "kernel", stopping)
    found = et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X, Y)
    assert len(calls) - 10 == 10 - 3
    et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X, 2 * Y)
    assert len(calls) - 10 == 10 - 3
    assert not np.max(np.abs(found.predict(NEW) - plain.predict(NEW))) > 1e-9


def test_a_complete_store_is_fitted_from_where_nothing_may_be_written():
    with public_folder() as folder:
        expected = et.InfiniteEnsemble(NET, ridge=1e-2, store=folder / "k").fit(X, Y).predict(NEW)
        with without_permission(folder):
            found = et.InfiniteEnsemble(NET, ridge=1e-2, store=folder / "k").fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(found, expected)


def test_other_fields_networks_and_folders_are_refused(tmp_path):
    et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X, Y)
    with pytest.raises(StoreError, match="the data x1: other values in the first 36 rows"):
        et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X + 1, Y)
    other = et.nn.Sequential(*NET.layers[:2], et.nn.Conv(1, (3, 3), W_std=2.0))
    for settings in ((other,), (NET, TURNS)):
        with pytest.raises(StoreError, match="differs in the network"):
            et.InfiniteEnsemble(*settings, ridge=1e-2, store=tmp_path / "k").fit(X, Y)
    with pytest.raises(InvalidTypeError, match="no description"):
        et.InfiniteEnsemble(PatchKernels(), ridge=1e-2, store=tmp_path / "own").fit(X, Y)


def test_rows_for_more_signals_are_added_and_a_saved_model_reads_its_store(tmp_path):
    et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X[:2], Y[:2])
    grown = et.InfiniteEnsemble(NET, ridge=1e-2, store=tmp_path / "k").fit(X, Y)
    grown.save(tmp_path / "model")
    plain = et.InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y).predict(NEW, return_std=True)
    for model in (grown, et.InfiniteEnsemble.load(tmp_path / "model")):
        for found, expected in zip(model.predict(NEW, return_std=True), plain, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-8)
