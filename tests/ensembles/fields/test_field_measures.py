"""Laws: measures, predicted statistics, plans and audits treat a field as one output that moves with its positions."""

import numpy as np
import pytest

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels
from equitangents import actions, metrics
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.inference.draws import as_key

C4 = actions.image_rotations(4)
UNEVEN = PatchKernels(profile=[[1, 0.5, 0], [1, 1, 0.2], [0, 0.3, 1]])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    return rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 3, 3, 2)), rng.normal(size=(2, 3, 3, 1))


@pytest.fixture(scope="module")
def augmented(data):
    return et.InfiniteEnsemble(PatchKernels(), augmentation=C4, time=20.0).fit(data[0], data[1])


@pytest.fixture(scope="module")
def plain(data):
    return et.InfiniteEnsemble(UNEVEN, time=20.0).fit(data[0], data[1])


def test_orbit_measures_carry_fields_back_before_they_compare(data, augmented, plain):
    x = data[2]
    for measure in (metrics.relative_orbit_std, metrics.equivariance_error):
        assert not measure(augmented.predict, C4, x, output_action=C4).mean > 1e-9
        assert measure(plain.predict, C4, x, output_action=C4).mean > 0.01
    back = np.stack([C4(C4.group.inverse(g), plain.predict(C4(g, x))) for g in range(4)]).reshape(4, 2, -1)
    by_hand = np.linalg.norm(back.std(0), axis=1) / np.linalg.norm(back.mean(0), axis=1)
    assert metrics.relative_orbit_std(plain.predict, C4, x, output_action=C4).values == pytest.approx(by_hand, rel=1e-9)
    classes = back.reshape(4, 2, 9, 2).argmax(-1)
    same = metrics.orbit_same_predictions(plain.predict, C4, x, output_action=C4)
    assert same.values == pytest.approx((classes == classes[0]).sum(0).mean(-1))
    with pytest.raises(ShapeError, match="with an output_action"):
        metrics.orbit_same_predictions(plain.predict, C4, x)
    with pytest.raises(InvalidArgumentError, match="expected <group C4 of order 4>; the group of action"):
        metrics.relative_orbit_std(plain.predict, C4, x, output_action=actions.image_dihedral(4))


def test_statistics_of_ensembles_of_fields_are_those_of_their_drawn_members(data, augmented):
    _, y, x = data
    statistics = augmented.orbit_statistics(C4, x, [1, 10**8], y=y[:2], output_action=C4, draws=300)
    assert not statistics.rsd.expected[1] > 1e-3  # the mean is equivariant, single members are not
    assert statistics.rsd.expected[0] > 0.05
    assert not statistics.equivariance_error.expected[1] > 1e-3
    assert statistics.osp.expected[1] == pytest.approx(4, abs=0.05)
    assert 1 <= statistics.osp.expected[0] < 4
    exact = ((augmented.predict(x) - y[:2]) ** 2).sum((1, 2, 3)).mean()
    assert statistics.error.expected[1] == pytest.approx(exact, rel=1e-2)
    half = actions.restrict(C4, C4.group.subgroup([0, 2]))  # not the augmentation's action: drawn from the covariance
    other = augmented.orbit_statistics(half, x, [1], output_action=half, draws=300)
    members = augmented.sample_orbits(x, 300, key=as_key("key", 5))[:, :, [0, 2]]
    back = np.stack([members[:, :, 0], np.flip(members[:, :, 1], (2, 3))], 2).reshape(300, 2, 2, 18)
    by_hand = np.linalg.norm(back.std(2), axis=-1) / np.linalg.norm(back.mean(2), axis=-1)
    assert other.rsd.expected[0] == pytest.approx(np.median(by_hand.mean(1)), rel=0.15)


def test_plans_of_fields_count_members_until_the_field_turns_with_its_input(data, augmented, plain):
    x = data[2]
    plan = et.plan_ensemble(augmented, C4, x, target=0.1, output_action=C4, draws=200)
    assert plan.violation(plan.members).upper <= 0.1 < plan.violation(plan.members - 1).upper
    never = et.plan_ensemble(plain, C4, x, target=1e-6, output_action=C4, draws=200)
    assert never.members is None


def test_audits_of_ensembles_of_fields_see_what_turns_and_what_does_not(data, augmented, plain):
    x = np.random.default_rng(4).normal(size=(2, 3, 3, 1))
    assert not et.audit(augmented, "C4", x, output_action=C4).errors.max() > 1e-6
    assert et.audit(plain.predict, "C4", x, output_action=C4).errors.max() > 1e-2
