"""The study of image folders: networks, training that goes on from checkpoints, claims of made-up curves, settings."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace

import flax.linen as nn
import jax
import numpy as np
import pytest
from PIL import Image

from equitangents import studies
from equitangents.errors import InvalidArgumentError, MissingLibraryError
from equitangents_studies.data import open_image_folder
from equitangents_studies.framework.progress import Task
from equitangents_studies.imagenet_scale import training
from equitangents_studies.imagenet_scale.study import PRESETS, ScaleResults, check_settings, claims, sizes_of
from equitangents_studies.systems import rotate, transformation
from studies.miniatures import TINY
from studies.small import follow

RECIPE = training.NetworkRecipe(pixels=4, batch=6, steps=7, rate=0.1, decay=1e-3, augment=True, every=2, seed=3)


class Small(nn.Module):
    """A convolution, batch statistics, a mean and a linear layer."""

    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(nn.Conv(3, (3, 3))(x)))
        return nn.Dense(2)(x.mean(axis=(1, 2)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (folder / name).mkdir()
        for i in range(8):
            Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)).save(folder / name / f"{i}.png")
    return open_image_folder(folder, test_fraction=0.25).train


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


class TestNetworks:
    @pytest.mark.quick(1)
    @pytest.mark.parametrize(
        ("name", "count"),
        [("ResNet-18", 11_689_512), ("ResNet-34", 21_797_672), ("ResNet-50", 25_557_032), ("ResNet-101", 44_549_160),
         ("Mixer-S", 18_528_264), ("Mixer-B", 59_880_472)],
    )  # fmt: skip
    def test_as_many_parameters_as_published_on_imagenet(self, name, count):
        assert training.parameters(training.network(name, 1000), 224) == count

    def test_widths_shrink(self):
        assert training.network("ResNet-50", 10, shrink=8).width == 8
        assert training.network("Mixer-S", 10, shrink=8, patch=4).token_width == 32


class TestTraining:
    def test_every_image_is_seen_once_in_each_epoch(self):
        rows = np.concatenate([training.image_rows(9, RECIPE, step) for step in range(6)])
        epochs = rows.reshape(4, 9)
        assert np.array_equal(np.sort(epochs, axis=1), np.tile(np.arange(9), (4, 1)))
        assert not np.array_equal(epochs[0], epochs[1])

    @pytest.mark.slow
    def test_training_that_is_stopped_goes_on_with_the_same_numbers(self, files, tmp_path):
        tau = transformation("O(3)^d", (4, 4, 3), seed=1)
        whole = training.train(Small(), files, tau, RECIPE, tmp_path / "whole", Task())

        class Stopping(Task):
            def step(self, done, total):
                if done == 5:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            training.train(Small(), files, tau, RECIPE, tmp_path / "cut", Stopping())
        assert [p.name for p in (tmp_path / "cut").iterdir()] == ["state.msgpack"]
        seen = []
        noting = type("Noting", (Task,), {"step": lambda self, done, total: seen.append(done)})()
        resumed = training.train(Small(), files, tau, RECIPE, tmp_path / "cut", noting)
        assert seen == [5, 6, 7]
        assert all(np.array_equal(a, b) for a, b in zip(leaves(resumed), leaves(whole), strict=True))
        found = training.right(Small(), whole, files, tau, RECIPE)
        assert found.shape == (12,)
        x = files.read(np.arange(12), 4)
        moved = rotate(np.asarray(training.standardised(x)), "O(3)^d", seed=1)
        y = Small().apply({"params": whole.params, "batch_stats": whole.statistics}, moved, train=False)
        assert np.array_equal(found, np.asarray(y).argmax(axis=1) == files.labels)

    def test_images_are_moved_as_rotate_moves_them(self, files):
        x = files.read(np.arange(3), 4)
        for group in ("I", "O(3)xI", "O(3)^d", "P(3d)"):
            tau = training._as_array(transformation(group, (4, 4, 3), seed=2))
            expected = rotate(np.asarray(training.standardised(x)), group, seed=2)
            assert np.max(np.abs(training._moved(x, tau) - expected)) < 1e-5

    def test_the_learning_rate_goes_up_and_then_down_to_nothing(self):
        long = replace(RECIPE, steps=100)
        rates = [training.rate_at(long, step) for step in range(101)]
        assert np.argmax(rates) in (4, 5)
        assert abs(max(rates) - 0.1) < 1e-12
        assert rates[0] == pytest.approx(0.02)
        assert abs(rates[100]) < 1e-12

    def test_a_checkpoint_of_something_else_is_refused(self, files, tmp_path):
        (tmp_path / "state.msgpack").write_bytes(b"none")
        with pytest.raises(InvalidArgumentError, match=r"state\.msgpack.*expected a checkpoint"):
            training.train(Small(), files, transformation("I", (4, 4, 3)), RECIPE, tmp_path, Task())


class TestClaims:
    settings = replace(
        PRESETS["paper"], networks=("ResNet-34", "ResNet-101", "Mixer-B"), permuted=True, halvings=12, runs=5
    )
    sizes = sizes_of(settings, 2_400_000)

    def results(self, *, after=(0.41, 0.49, 0.38), cusp=1.0, lost=10.0, runs=5):
        """Curves with a cusp at `cusp` times the dimension, whose exponents beyond it are `after`."""
        rng, n = np.random.default_rng(0), np.array(self.sizes, float)
        count = 1000

        def right(place, exponent, top):
            curve = np.where(n < place, (n / place) ** -0.1, (n / place) ** -exponent)
            errors = top * curve / curve[-1]
            return np.stack([[_share(1 - e * np.exp(0.003 * rng.normal()), count, rng) for _ in range(runs)]
                             for e in errors])  # fmt: skip

        at = {g: cusp * d for g, d in (("I", 294_528), ("O(3)^d", 150_528))}
        found = {}
        for name, more in (("ResNet-34", lost), ("ResNet-101", lost - 4.0), ("Mixer-B", lost)):
            clean = after[2] if name == "Mixer-B" else after[0]
            found[name, "I"] = right(at["I"], clean, 0.2)
            found[name, "O(3)^d"] = right(at["O(3)^d"], after[1], 0.2 + more / 100)
        return ScaleResults(self.sizes, found, {})

    @pytest.mark.parametrize(
        ("change", "expected"),
        [({}, ["holds"] * 2), ({"lost": -10.0}, {0: "fails"}), ({"after": (0.02, 0.02, 0.02)}, {1: "fails"})],
    )
    def test_a_claim_follows_its_numbers(self, change, expected):
        results = self.results(**change)
        follow(claims(self.settings, results), expected)
        if not change:
            assert results.laws  # kept: they cannot be fitted to what is not a number
            results.right["ResNet-34", "I"] = np.full((12, 5, 1000), np.nan)
            follow(claims(self.settings, results), {0: "undecided"})


def _share(share, count, rng):
    """So many right answers, in random places."""
    right = np.zeros(count, bool)
    right[: round(np.clip(share, 0, 1) * count)] = True
    return rng.permutation(right)


def test_without_flax_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'equitangents\[studies\]'"):
        studies.run("imagenet-scale", out=tmp_path / "run", progress=False)


def _command(folder, out, *more):
    settings = TINY["imagenet-scale"] | {"data": str(folder), "epochs": "3"}
    words = [w for key, value in settings.items() for w in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "equitangents", "reproduce", "imagenet-scale", *words, "--out", str(out), *more]


def _right(out):
    """Which images each training classifies rightly."""
    stages = {path.stem: path for path in (out / "stages").glob("*-*.npz")}
    return {name: np.load(path)["0"].tolist() for name, path in stages.items()}


@pytest.mark.slow
def test_a_run_on_a_folder_that_was_killed_goes_on_with_the_same_numbers(files, tmp_path):
    folder = files.folder
    subprocess.run(_command(folder, tmp_path / "whole"), check=True, capture_output=True)
    killed = subprocess.Popen(_command(folder, tmp_path / "cut"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while killed.poll() is None and time.monotonic() < deadline:
        if any((tmp_path / "cut" / "checkpoints").glob("Mixer*/state.msgpack")):
            break
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "cut" / "report.html").exists()
    subprocess.run(_command(folder, tmp_path / "cut", "--resume"), check=True, capture_output=True)
    assert _right(tmp_path / "cut") == _right(tmp_path / "whole")


@pytest.mark.slow
def test_a_folder_that_changed_is_not_gone_on_with(files, tmp_path, monkeypatch):
    import shutil

    from equitangents_studies.imagenet_scale import study

    folder = tmp_path / "images"
    shutil.copytree(files.folder, folder)
    settings = TINY["imagenet-scale"] | {"data": str(folder)}
    with monkeypatch.context() as patch:
        patch.setattr(study, "_trained", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            studies.run("imagenet-scale", out=tmp_path / "run", settings=settings, progress=False)
    (folder / "a" / "0.png").rename(folder / "a" / "new.png")
    with pytest.raises(InvalidArgumentError, match="expected the files that the run began with"):
        studies.run("imagenet-scale", out=tmp_path / "run", settings=settings, progress=False, resume=True)


def test_quick_and_desk_can_be_used_without_files():
    for settings in (PRESETS["quick"], PRESETS["desk"]):
        check_settings(replace(settings, data="textures"), None)


def test_sizes_are_halved_every_second_time():
    sizes = TestClaims.sizes
    assert (len(sizes), sizes[-1], sizes[0]) == (12, 2_400_000, round(2_400_000 * 2**-5.5))
