"""What an audit reads along orbits: outputs carried back, the worst of several outputs, maps that are no actions."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et

QUIET = {"off_data": False, "data_test": None, "resamples": 50, "layers": False}
CLOUDS = np.random.default_rng(0).normal(size=(12, 4, 3))
IMAGES = np.random.default_rng(1).normal(size=(8, 4, 4, 1))


@pytest.mark.parametrize(
    ("f", "group", "x", "outputs"),
    [
        (lambda x: x**3, et.actions.image_rotations(4), IMAGES, et.actions.image_rotations(4)),
        (lambda x: (x * np.linalg.norm(x, axis=2, keepdims=True)).sum(1), "SO3", CLOUDS, "vectors"),
        (lambda x: np.tanh(x), "S4", CLOUDS, "points"),
    ],
    ids=["C4", "SO3", "S4"],
)
def test_signals_of_equivariant_functions_are_constant(f, group, x, outputs) -> None:
    kinds = {"inputs": "vectors"} if group == "SO3" else {}
    report = et.audit(f, group, x, outputs, **kinds, **QUIET)
    assert report.verdict == "equivariant"
    assert report.orbit.relative_std.mean < 1e-6
    assert report.relative.rms_violation <= 1e-6 * report.relative.rms_norm
    averaging = report.remedies[0]
    assert not averaging.error_after > 1e-6


def test_the_error_is_that_of_the_worst_output() -> None:
    fine, broken = (lambda x: x.sum((1, 2)) + 20), (lambda x: x[:, 0, 0] + 20)
    both = et.audit(lambda x: (fine(x), broken(x)), "C4", IMAGES, **QUIET)
    alone = et.audit(broken, "C4", IMAGES, **QUIET)
    np.testing.assert_allclose(both.errors, alone.errors, rtol=1e-12)
    assert both.verdict == "broken"
    first, second = (output.error.mean for output in both.contract.outputs)
    assert first < 1e-9
    assert second == pytest.approx(alone.error.estimate.mean)


@pytest.mark.parametrize("action", [et.actions.image_dihedral(4), et.actions.image_rotations(4)], ids=["D4", "C4"])
def test_shares_of_irreps_are_the_powers_of_their_projections(action) -> None:
    f = lambda x: np.stack([x[:, 0, 1, 0] ** 2, np.tanh(x[:, 0, 0, 0] + x[:, 1, 2, 0])], axis=1)
    section = et.audit(f, action, IMAGES, **QUIET).irreps
    group = action.group
    phi = np.stack([f(action(g, IMAGES)) for g in group])
    powers = []
    for irrep in group.irreps("real")[1:]:
        characters = irrep.multiplicity * irrep.character[group.table[group.inverses]] / group.order
        powers.append(float((np.einsum("gh,hnk->gnk", characters, phi) ** 2).sum()))
    shares = [share.share.mean for share in section.shares]
    np.testing.assert_allclose(shares, np.array(powers) / np.sum(powers), atol=1e-12)
    assert section.violation_share == pytest.approx(np.sum(powers) / float((phi**2).sum()))


@pytest.mark.parametrize("map_", [lambda R, x: 0 * x, lambda R, x: x * [1.0, 1.0, 0.0]], ids=["nothing", "a plane"])
def test_maps_that_respect_products_but_change_everything_are_no_actions(map_) -> None:
    with pytest.raises(et.errors.NotAnActionError, match="the identity changes it"):
        et.audit(lambda x: x.sum((1, 2)), "SO3", CLOUDS, inputs=et.audit.Custom(map_), **QUIET)
