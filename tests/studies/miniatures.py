"""Every study in miniature."""

from __future__ import annotations

import importlib

from equitangents import studies

TINY = {
    "toy": {
        "members": "12", "width": "8", "train_points": "6", "orbit_points": "5", "pixels": "9",
        "steps": "0,1,2,3,12", "hidden_layers": "1",
    },
    "ising": {
        "lattice": "3", "train_spins": "5", "test_spins": "4", "widths": "4,16", "members": "32",
        "members_at_once": "20", "groups": "1,2,4", "steps": "0,1,4", "gp_samples": "50",
        "hidden_layers": "1",
    },
    "rotated-images": {
        "train_images": "24", "test_images": "10", "foreign_images": "6", "members": "4", "channels": "4",
        "narrow": "2", "epochs": "5", "recorded_epochs": "0,1,3", "infinite_train": "24",
    },
    "histology": {
        "data": "digits", "foreign": "photographs", "pixels": "4", "train_images": "16", "test_images": "6",
        "foreign_images": "5", "members": "3", "channels": "2", "epochs": "2", "recorded_epochs": "0,1",
        "infinite_train": "16",
    },
    "comparison": {
        "baselines": "plain,augmented,gcnn", "shrink": "2", "repetitions": "2", "train_images": "24",
        "test_images": "10", "foreign_images": "6", "channels": "2,2", "most_members": "2", "epochs": "1",
    },
    "predicted-agreement": {
        "train_images": "4", "test_images": "4", "foreign_images": "3", "widths": "1,2", "members": "5", "steps": "1,2",
        "hidden_layers": "1", "draws": "20",
    },
    "mlp-to-gcnn": {
        "group": "C4", "train_images": "4", "test_images": "4", "foreign_images": "4", "times": "1,inf",
        "widths": "8,16", "draws": "3", "trained_widths": "4", "members": "4", "steps": "0,2",
        "hidden_layers": "1", "depths": "1,2", "depth_images": "2", "frozen_depths": "2", "depth_width": "3",
    },
    "augmented-cnn-to-gcnn": {
        "foreign": "noise", "pixels": "4", "train_images": "3", "test_images": "3", "foreign_images": "2",
        "widths": "1,2", "members": "48", "steps": "1,2", "times": "1,inf", "hidden_layers": "1",
    },
    "cross-product": {
        "groups": "T,O", "trained_groups": "T", "train_pairs": "3", "test_pairs": "3", "rotations": "4",
        "members": "6", "width": "4", "steps": "0,1,3", "hidden_layers": "1",
    },
    "continuous": {
        "train_images": "5", "test_images": "4", "orders": "2,4", "angles": "8", "rings": "2", "samples": "5",
        "points": "2", "steps": "1,3", "hidden_layers": "1",
        "image_orders": "2,4", "image_train": "8", "image_test": "3", "foreign": "noise", "foreign_images": "3",
        "image_members": "2", "ensembles": "5", "patch": "4", "channels": "2", "epochs": "2", "batch": "8",
    },
    "sampling": {
        "order": "4", "budgets": "1,2", "draws": "4", "times": "1,inf", "train_images": "5", "test_images": "3",
        "rings": "2", "samples": "5", "data": "digits", "image_train": "8", "image_test": "3", "foreign": "noise",
        "foreign_images": "3", "image_order": "4", "image_budget": "2", "repetitions": "2", "members": "2",
        "patch": "4", "channels": "2", "epochs": "1", "batch": "8",
    },
    "finite-width": {
        "tasks": "ising,digits", "lattice": "4", "pixels": "4", "train_spins": "3", "test_spins": "3",
        "train_images": "3", "test_images": "3", "widths": "2,4,8", "channels": "1,2,3", "group_channels": "1,2",
        "members": "12", "cnn_members": "12", "group_members": "2", "sizes": "1,2,4", "steps": "1,3",
        "hidden_layers": "1",
    },
    "other-ensembles": {
        "lattice": "3", "train_spins": "4", "test_spins": "3", "width": "4", "members": "12", "sizes": "1,2,4",
        "steps": "3", "hidden_layers": "1",
    },
    "medical-kernels": {
        "data": "digits", "images": "60", "pixels": "8", "sizes": "10,20", "patch": "2", "stride": "2",
        "hidden_layers": "1", "checked": "2",
    },
    "molecules": {
        "sizes": "12,24", "test": "6", "splits": "3", "tuning": "10", "bandlimit": "2", "scales": "0.3", "block": "11",
        "moved": "2", "rotations": "2", "tolerance": "1e-2", "soap_n_max": "2", "soap_l_max": "1",
    },
    "forces": {
        "sizes": "2,3", "test": "2", "bandlimit": "2", "tolerance": "1e-6", "rotations": "1", "scale": "0.5",
        "ridge": "1e-5",
    },
    "kernel-convergence": {
        "widths": "2,4,8", "batches": "3", "samples": "2", "inputs": "2", "lattice": "2", "sampled": "2",
    },
    "symmetry-groups": {
        "data": "textures", "train_images": "20", "pooled_images": "20", "test_images": "5", "depth": "1",
        "width": "1", "members": "6", "epochs": "1", "cases": "2",
    },
    "spurious-symmetries": {
        "data": "textures", "train_images": "20", "test_images": "5", "width": "4", "epochs": "1",
        "models": "FCN,GAP", "images": "40,40", "moved": "FCN", "kernel_pixels": "8", "kernel_depth": "1",
        "small_images": "40", "small_pixels": "8", "smallest": "10", "folds": "2", "repetitions": "2",
    },
    "finite-width-vec": {
        "data": "textures", "train_images": "20", "test_images": "5", "pixels": "4", "depth": "1", "widths": "2,4",
        "runs": "2", "needed": "2", "epochs": "1",
    },
    "symmetry-breaking-path": {
        "data": "textures", "train_images": "20", "test_images": "3", "pixels": "3", "times": "0,1", "widths": "2,3",
        "depth": "1", "members": "5", "epochs": "1",
    },
    "gaussian-vs-uniform": {
        "data": "textures", "train_images": "20", "test_images": "3", "pixels": "3", "width": "4", "depth": "1",
        "members": "5", "epochs": "1",
    },
    "learning-curves": {
        "data": "textures", "images": "100", "pixels": "4", "depth": "1", "pooled_images": "80", "smallest": "10",
        "repetitions": "2", "networks": "VEC", "network_sizes": "20,40", "network_depth": "1", "width": "4",
        "predicted_sets": "digits", "predicted_images": "60", "predicted_sizes": "20,40", "draws": "5",
        "whole": "FCN", "whole_images": "135", "whole_tested": "10", "approximated": "GAP",
        "features": "64", "exact_images": "12", "exact_features": "64,128",
    },
    "imagenet-scale": {
        "data": "textures", "images": "40", "pixels": "4", "networks": "Mixer-S", "shrink": "64", "patch": "2",
        "halvings": "6", "runs": "1", "batch": "8", "epochs": "1", "fewest_steps": "2", "every": "1",
        "test_share": "0.25",
    },
    "spectra": {
        "sets": "digits", "groups": "C4", "images": "60", "pixels": "4", "sizes": "8,16,32", "repetitions": "3",
        "spectrum_images": "10", "hidden_layers": "1",
    },
    "moving-outputs": {
        "pixels": "4", "sizes": "1,2", "test": "2", "draws": "2", "hidden_layers": "1", "few": "1", "units": "1,inf",
        "members": "5", "channels": "2", "trained": "1", "steps": "1,2",
    },
}  # fmt: skip
PARTS = {  # further parts of studies: (study, preset, settings)
    "moving-outputs flows": ("moving-outputs", "flows-quick", {
        "pixels": "4", "waves": "1", "sizes": "1,2", "test": "2", "draws": "2", "hidden_layers": "1", "few": "1",
        "units": "1,inf", "members": "5", "channels": "2", "trained": "1", "steps": "1,2",
    }),
    "moving-outputs rotations": ("moving-outputs", "rotations-quick", {
        "order": "4", "rings": "2", "angles": "4", "sizes": "2,4", "test": "3", "draws": "2", "hidden_layers": "1",
        "few": "1", "units": "1,inf", "members": "5", "width": "4", "trained": "2", "steps": "1,2",
    }),
}  # fmt: skip
EXACT = {  # numbers of the claims that hold at any size, not by statistics
    "rotated-images": (1,), "histology": (1,), "mlp-to-gcnn": (0, 5, 6, 7), "augmented-cnn-to-gcnn": (0,),
    "cross-product": (0, 1, 2, 8, 9), "continuous": (1,), "finite-width": (12,), "sampling": (0,),
    "other-ensembles": (0,), "medical-kernels": (3, 4), "symmetry-groups": (0, 1, 2, 3),
    "spurious-symmetries": (7, 8), "finite-width-vec": (4,), "gaussian-vs-uniform": (0, 1, 3),
    "learning-curves": (1,), "spectra": (3, 4), "moving-outputs": (2, 3),
}  # fmt: skip


def run(name, out, **how):
    """The study, or its part, `name` in miniature."""
    study, preset, settings = PARTS.get(name, (name, "quick", TINY.get(name)))
    return studies.run(study, out=out, settings=settings, progress=False, **{"preset": preset, **how})


def study(name):
    return importlib.import_module(studies.registry[name].module).STUDY


def assert_same_tables(one, other):
    """Byte for byte."""
    tables = [{path.name: path.read_bytes() for path in (run / "results").iterdir()} for run in (one, other)]
    assert tables[0] == tables[1]
