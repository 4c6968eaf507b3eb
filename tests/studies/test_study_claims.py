"""Claims of four studies, on numbers made for the purpose: true ones hold and false ones fail."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from equitangents_studies import ising, kernel_convergence, toy
from equitangents_studies.common.orbits import relative_std
from equitangents_studies.ising import claims as ising_claims
from equitangents_studies.rotated_images import study as rotated_images
from studies.small import follow

ISING = ising.IsingSettings(members=120, widths=(8, 64), groups=(1, 2, 4), steps=(0, 1, 2), test_spins=6)
ROTATED = rotated_images.RotatedSettings(members=12, train_images=20, test_images=60, foreign_images=60)
WIDTHS = kernel_convergence.ConvergenceSettings(widths=(4, 16, 64), batches=40)


def toy_results(*, common=0.0, spread=1.0, infinite=0.0, control=1.0, members=200):
    """Gaussian deviations with and without a part that all members share."""
    rng = np.random.default_rng(0)
    pattern = common * rng.normal(size=(1, 1, 4, 30))
    orbits = tuple(spread * rng.normal(size=(2, 200, 4, 30))[:, :members] + pattern for _ in range(2))
    exact, plain = np.zeros((2, 2, 4, 30))
    exact[1, 2, 3] = infinite
    plain[1, 2, 3] = control
    return toy.ToyResults(
        times=np.array([0, 5]), train_x=np.zeros((1, 2)), truth=np.zeros((1, 1)), scale=1.0,
        augmented=toy.ToyPredictions(orbits, (exact, exact), maps={}),
        plain_orbits=(plain, plain),
    )  # fmt: skip


def toy_claims(*, members=200, **how):
    settings = toy.ToySettings(members=members, steps=(0, 5), orbit_points=30)
    return toy.claims(settings, toy_results(members=members, **how))


def ising_results(*, distances=(1.0, 0.0), spread=1.0, shared=0.0):
    """Members with mean `distances` away from the closed form, by width, and `spread` times its spread."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(1, 1, 6)) * np.ones((3, 4, 6))
    members = {}
    for width, distance in zip(ISING.widths, distances, strict=True):
        noise = 0.3 * spread * rng.normal(size=(3, 120, 4, 6))
        members |= {(width, name): mean[:, None] + noise + distance for name in ising.SETS}
    fluctuation = 0.3 * rng.normal(size=(400, 4, 6))
    predicted = [relative_std(mean[0] + fluctuation / np.sqrt(m)) for m in ISING.groups]
    alike = shared * np.random.default_rng(1).normal(size=(3, 1, 4, 6))
    members |= {(64, name): members[64, name] + alike for name in ising.SETS}
    each = lambda value: dict.fromkeys(ising.SETS, value)
    return ising.IsingResults(
        times=np.array([0, 1, 2]), mean=each(mean), members=members,
        predicted=each(np.broadcast_to(predicted, (3, 3, 400))), curve={},
    )  # fmt: skip


def far(power):
    return tuple(30 * np.array(ISING.widths, float) ** power)


def convergence_results(*, rate=-0.5, off=0.0):
    """Means of batches that scatter as a power of the width, and lie `off` standard errors from the closed form."""
    rng = np.random.default_rng(0)
    exact, sizes = 1 + np.eye(3), 0.1 * np.array(WIDTHS.widths) ** rate
    noise = sizes[:, None, None, None] * rng.normal(size=(3, 40, 3, 3))
    errors = noise.std(axis=1, ddof=1) / 40**0.5
    means = exact + noise + off * errors[:, None]
    each = lambda value: {(s, k): value for s in kernel_convergence.SPACES for k in kernel_convergence.KINDS}
    return kernel_convergence.ConvergenceResults(each(exact), each(means), each(errors))


def rotated_results(*, mean_errors=0, infinite_errors=0, untrained=0, steady=False, moved=None):
    """Members err on a random quarter of the orbit; the mean and the closed form on so many inputs."""
    rng = np.random.default_rng(0)
    images = rotated_images.load_images(ROTATED, None)
    members, mean, infinite = {}, {}, {}
    for name, x in images.sets.items():
        base = rng.integers(0, 10, len(x))
        labels = np.broadcast_to(base, (2, ROTATED.members, 4, len(x)))
        members[name] = np.where(rng.random(labels.shape) < 0.25, (labels + 1) % 10, labels)
        mean[name] = np.array(labels[:, 0])
        mean[name][0] = members[name][0, 0]  # untrained, it is like one of them
        mean[name][0, 1:] += untrained
        mean[name][1, 1:, :mean_errors] += 1
        infinite[name] = np.array(labels[:, 0])
        infinite[name][1, 1:, :infinite_errors] += 1
        if steady:
            members[name][1, 0] = members[name][1, 0, 0]  # one member that no turn changes
    changes = {name: np.where(y != y[:, :1], 1.0, 0.0).max(axis=(1, 2)) for name, y in infinite.items()}
    if moved is not None:
        changes = {name: np.array([0.0, moved]) for name in infinite}
    leads = {name: np.array([0.0, 0.02]) for name in infinite}
    return rotated_images.RotatedResults(
        images, np.array([0, 1]), members, mean, infinite, {}, deviation=changes, margin=leads
    )


STUDIES = {
    "toy": toy_claims,
    "ising": lambda **how: ising_claims(ISING, ising_results(**how)),
    "rotated": lambda **how: rotated_images.claims(ROTATED, rotated_results(**how)),
    "convergence": lambda **how: kernel_convergence.claims(WIDTHS, convergence_results(**how)),
}


@pytest.mark.parametrize(("name", "change", "expected"), [
    ("toy", {}, ["holds"] * 5), ("toy", {"spread": 1e-4}, {0: "fails"}), ("toy", {"common": 0.5}, {1: "fails"}),
    ("toy", {"infinite": 1e-5}, {2: "fails"}), ("toy", {"control": 1e-3}, {3: "fails"}),
    ("toy", {"common": 3.0}, {4: "fails"}), ("toy", {"members": 4}, {1: "undecided"}),
    ("ising", {}, {0: "holds", 1: "holds", 2: "holds", 3: "holds"}),
    ("ising", {"distances": (1.0, 1.0)}, {0: "fails", 1: "fails"}), ("ising", {"spread": 3.0}, {2: "fails"}),
    ("ising", {"shared": 1.0}, {3: "fails"}), ("ising", {"distances": far(-1.0)}, {4: "holds"}),
    ("ising", {"distances": far(-0.6)}, {4: "fails"}),
    ("ising", {"distances": (0.0, 0.0)}, {0: "undecided", 4: "undecided"}), ("rotated", {}, ["holds"] * 4),
    ("rotated", {"untrained": 1}, ["holds", "holds", "holds", "fails"]),
    ("rotated", {"mean_errors": 50}, {0: "fails", 2: "fails"}), ("rotated", {"infinite_errors": 1}, {1: "fails"}),
    ("rotated", {"moved": 1e-14}, {1: "holds"}), ("rotated", {"moved": 1e-8}, {1: "fails"}),
    ("rotated", {"moved": np.nan}, {1: "undecided"}), ("convergence", {}, ["holds"] * 3),
    ("convergence", {"rate": -0.05}, {1: "fails"}), ("convergence", {"rate": -1.0}, {1: "fails"}),
    ("convergence", {"rate": 0.3}, {0: "fails"}), ("convergence", {"off": 5.0}, {2: "fails"}),
])  # fmt: skip
def test_claims_follow_their_numbers(name, change, expected):
    follow(STUDIES[name](**change), expected)


@pytest.mark.parametrize(("group", "order", "exact"), [("D4", 8, True), ("C8", 8, False)])
def test_rotated_images_claim_an_invariant_mean_only_of_groups_that_keep_pixels(group, order, exact):
    settings = dataclasses.replace(ROTATED, group=group)
    action = rotated_images.image_action(settings, rotated_images.chosen_images(settings, None))
    assert (action.group.order, action.exact) == (order, exact)
    shared = SimpleNamespace(exact=exact, group=rotated_images.ROTATIONS.group)
    judged = rotated_images.claims(settings, dataclasses.replace(rotated_results(), action=shared))
    assert any("infinite width" in claim.statement for claim in judged) == exact


@pytest.mark.parametrize("net", ["patches", "FCN", "LCN", "VEC", "GAP"])
def test_rotated_images_take_networks_whose_infinite_mean_is_invariant(net):
    settings = dataclasses.replace(ROTATED, net=net, channels=(4, 4))
    built = rotated_images.network(settings, 10)
    assert built.invariant_under(rotated_images.ROTATIONS, (8, 8, 1))


def test_numbers_of_claims_are_those_that_were_planted():
    one, *_ = toy_claims(common=3.0)[4:]
    assert one.number > 0.9
    tenth = toy_claims()[4]
    assert tenth.interval[0] < 20**-0.5 < tenth.interval[1]
    assert 1.5 < STUDIES["ising"](spread=3.0)[2].number < 3
    for power in (-1.0, -0.6):
        low, high = STUDIES["ising"](distances=far(power))[4].interval
        assert low < power < high
    assert [c.kind for c in STUDIES["ising"]()] == ["source"] * 4 + ["ours"]
    assert [c.kind for c in STUDIES["rotated"]()] == ["source", "source", "ours", "check"]
    assert STUDIES["rotated"](infinite_errors=1)[1].number == 1.0
    assert "leads the second by 0.0200 at least" in STUDIES["rotated"](moved=1e-14)[1].measure


def test_violations_are_differences_from_the_input_as_it_is():
    trained = toy_results().augmented
    found = toy.violations(trained, 1)
    assert found.shape == (2, 200, 3, 30)
    for g in range(1, 4):
        assert np.array_equal(found[:, :, g - 1], trained.orbits[1][:, :, g] - trained.orbits[1][:, :, 0])


def test_a_mean_ahead_of_its_members_but_not_of_the_best_fails_our_question_alone():
    found = {c.statement: c.outcome for c in STUDIES["rotated"](mean_errors=2, steady=True)}
    assert [o for s, o in found.items() if "than its members do" in s] == ["holds"]
    assert "holds" not in [o for s, o in found.items() if "best of its 12 members" in s]


def test_the_verdict_is_on_the_mean_over_sets_and_the_least_favourable_one_is_named():
    results = rotated_results()
    results.mean["noise"][1, 1:, :50] += 1
    (found,) = (c for c in rotated_images.claims(ROTATED, results) if "than its members do" in c.statement)
    assert found.numbers["noise after epoch 1"].high < 0
    assert found.number == pytest.approx(np.mean([e.value for e in found.numbers.values()]))


def test_changes_and_leads_are_relative_to_the_size_of_outputs_and_0_before_training():
    outputs = np.zeros((2, 4, 1, 3))  # (times, |G|, inputs, classes)
    outputs[1] = [[3.0, 1.0, 2.0]]
    outputs[1, 2] = [[3.0, 1.0, 2.5]]
    moved, least = rotated_images.margins(rotated_images.ROTATIONS, outputs)
    size = np.sqrt((outputs[1] ** 2).mean())
    assert (moved[0], least[0]) == (0, 0)
    assert (moved[1], least[1]) == pytest.approx((0.5 / size, 0.5 / size))


def test_without_the_closed_form_there_is_no_claim_about_it():
    results = dataclasses.replace(rotated_results(), infinite={})
    assert not any("infinite" in v.statement for v in rotated_images.claims(ROTATED, results))


def test_what_falls_as_one_over_the_width_is_not_in_the_limit():
    results = convergence_results()
    n = np.array(WIDTHS.widths, float)[:, None, None, None]
    biased = dataclasses.replace(results, means={key: m + 3 / n for key, m in results.means.items()})
    for key in results.exact:
        one, other = (kernel_convergence.limits(WIDTHS, r, *key) for r in (results, biased))
        np.testing.assert_allclose(one, other, rtol=1e-12)
