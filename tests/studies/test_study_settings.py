"""Settings that make no study are refused by name before anything runs; presets of a paper are larger."""

import json
from pathlib import Path

import pytest

from equitangents import studies
from equitangents.errors import EquitangentsError, InvalidTypeError
from equitangents_studies.framework.study import as_text, changed
from studies.miniatures import TINY, study

ROOT = Path(__file__).parents[2]


BAD = {  # settings of the quick preset, each as text, and what its refusal says
    "toy": [("rotations=1", "rotations was 1"), ("size=3", "setting is 'size'; expected 'rotations', 'members'")],
    "ising": [
        ("groups=1,500", "groups"), ("groups=2,4", "with 1"), ("groups=", "with 1"),
        ("widths=4,4,16", "two different widths"), ("steps=", "beyond 0"),
    ],
    "rotated-images": [
        ("recorded_epochs=0,99", "recorded_epochs"), ("foreign=noise,noise", "foreign"),
        ("net=GAP readout=pool", "^readout"), ("net=FCN output_std=0.1", "^output_std"),
        ("net=VEC channels=8,4", "^channels"), ("net=VEC narrow=2,4", "^narrow"),
    ],
    "predicted-agreement": [("widths=8", "widths was"), ("members=4", "members was 4")],
    "mlp-to-gcnn": [("group=C3", "group was 'C3'"), ("draws=1", "draws was 1"), ("depths=0,1", "depths was")],
    "cross-product": [("groups=T,X", "groups was"), ("groups=T trained_groups=O", "trained_groups was")],
    "continuous": [
        ("angles=100", "angles was 100"), ("samples=14", "samples was 14"), ("image_orders=4,2", "image_orders was"),
        ("image_orders=2,5", "angles was"), ("patch=3", "patch was 3"), ("pixels=9", "pixels was 9"),
        ("foreign=noise,noise", "foreign was"), ("image_members=1", "image_members was 1"),
    ],
    "sampling": [
        ("budgets=1,3", "budgets was"), ("image_budget=8", "image_budget was 8"),
        ("image_budget=3", "image_budget was 3"), ("members=1", "members was 1"), ("channels=", "channels was"),
        ("draws=2", "draws was 2"),
    ],
    "finite-width": [
        ("sizes=1,3,64", "sizes was"), ("members=10", "members was 10"), ("cnn_members=10", "cnn_members was 10"),
        ("channels=4,8,8,16", "channels"), ("tasks=ising,ising", "tasks was"), ("tasks=ising,mine.npz", "tasks was"),
    ],
    "comparison": [
        ("baselines=gcn", "baseline is 'gcn'"), ("baselines=plain,plain", "baselines"),
        ("group=C8 baselines=invariant-kernel", "baselines"), ("group=C5", "group was 'C5'"),
        ("pixels=7", "pixels was 7"), ("data=mine.npz", "expected a file"), ("channels=4", "channels"),
        *((f"tolerated={loss}", "tolerated was .*between 0 and 1") for loss in ("0", "1", "nan", "-0.1")),
    ],
    "medical-kernels": [
        *((f"data=digits images=60 pixels=8 patch=2 stride=2 {bad}", message) for bad, message in (
            ("sizes=10,20 patch=3", "patch was 3"), ("sizes=10,20 pixels=7", "pixels was 7"),
            ("sizes=10,60", "sizes was"), ("sizes=5", "at least the number of classes, 10"),
            ("sizes=10,20 images=9999", "images was 9999"),
        )),
    ],
    "molecules": [
        ("sizes=5,20", "sizes was"), ("sizes=20,12", "sizes was"), ("splits=2", "splits was 2"),
        ("data=qm8", "data was 'qm8'"), ("tuning=1000", "tuning was 1000"),
    ],
    "forces": [("molecule=water", "molecule was 'water'"), ("sizes=4", "sizes was"), ("sizes=8,4", "increasing")],
    "kernel-convergence": [("widths=4,8,8", "widths was"), ("sampled=1", "sampled was 1")],
    "learning-curves": [
        *((f"{kind}=VEC,FNC", f"{kind} is 'FNC'; expected 'FCN', .*; did you mean 'FCN'")
          for kind in ("models", "networks", "whole", "approximated")),
        ("prepared=nothing", "prepared"), ("data=textures images=60 smallest=40", "5 sizes"),
        ("data=textures predicted_sizes=200,900", "predicted_sizes"), ("data=nothing", "data"),
    ],
    "symmetry-groups": [
        ("data=textures pixels=4", "pixels was 4"), ("data=imagenet", "data was 'imagenet'"),
        ("data=textures pooled_images=9999", "pooled_images was 9999"),
    ],
    "symmetry-breaking-path": [
        ("data=textures times=0.5,1", "times was"), ("data=textures members=3", "members was 3"),
        ("data=digits", "O.1. has no path"), ("data=textures widths=8,4", "widths was"),
    ],
    "gaussian-vs-uniform": [("data=textures members=4", "members was 4"), ("data=textures networks=", "one network")],
    "finite-width-vec": [
        ("data=textures widths=8,12", "widths was"), ("data=textures needed=9", "needed was 9"),
        ("data=textures widths=8", "widths was"),
    ],
    "spurious-symmetries": [
        ("data=textures pixels=12", "pixels was 12"), ("data=textures images=100", "images was"),
        ("data=textures models=MLP images=100 moved=MLP", "models is 'MLP'; expected"),
        ("data=textures moved=LCN", "moved was"), ("data=textures small_images=20", "small_images was 20"),
        ("data=textures ridge=0", "ridge was"),
    ],
    "imagenet-scale": [
        ("data=nowhere", "data was 'nowhere'"),
        ("data=textures networks=ResNet-17", "networks is 'ResNet-17'; expected .* did you mean"),
        ("data=textures groups=O(3)^d", "groups was"), ("data=textures patch=5", "patch was 5"),
        ("data=textures largest=9999", "largest was 9999"), ("data=textures halvings=4", "halvings was 4"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_named_before_anything_is_written(name, tmp_path):
    for text, message in BAD[name]:
        settings = dict(word.split("=", 1) for word in text.split())
        with pytest.raises(EquitangentsError, match=message):
            studies.run(name, out=tmp_path / "run", settings=settings, progress=False)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", TINY)
def test_the_least_settings_that_make_a_study_are_allowed(name):
    study(name).check(changed(study(name).presets["quick"], TINY[name]), None)


RUNS = [path for path in (ROOT / "docs" / "results").glob("*/run.json") if path.parent.name in studies.registry]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_a_preset_keeps_the_settings_of_its_published_run_so_that_the_run_can_be_resumed(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    now, then = as_text(study(record["study"]).presets[record["preset"]]), record["settings"]
    if record["study"] == "moving-outputs":  # its tasks had settings of their own, and masks were of data "cells"
        now, then = ({key: s[key] for key in now.keys() & then.keys() - {"data"}} for s in (now, then))
    assert now == then


def test_settings_that_are_no_text_are_answered_with_the_text_that_they_should_be():
    quick, c8 = (study("comparison").presets[name] for name in ("quick", "desk-c8"))
    for value, text in ((3, "3"), ((8, 16), "8,16"), (None, "none")):
        with pytest.raises(InvalidTypeError, match=f"expected text, as after --set; {text}"):
            changed(quick, {"channels": value})
    assert c8.shrink == ()
    assert changed(c8, {"shrink": as_text(c8)["shrink"]}) == c8
