"""Verdicts of the studies of augmentation on numbers made for the purpose."""

import jax
import numpy as np
import pytest

from equitangents_studies import finite_width
from equitangents_studies.continuous import study as continuous
from equitangents_studies.continuous.page import claims as continuous_claims
from equitangents_studies.other_ensembles import study as other_ensembles
from equitangents_studies.other_ensembles.page import claims as other_ensembles_claims
from equitangents_studies.sampling import study as sampling
from equitangents_studies.sampling.page import claims as sampling_claims
from equitangents_studies.sampling.study import RANDOM, STRATEGIES
from studies.small import outcomes

_UNDECIDED = "undecided"  # of three widths with 256 members no second order can be taken out


class TestContinuousClaims:
    settings = continuous.Settings(orders=(2, 4), trained=(), steps=(1,))

    def _results(self, *, slope=2.0, constant=10.0, own=0.0, pixels=1.0):
        rng = np.random.default_rng(0)
        kappa = np.array([2.0, 1.0])
        off = kappa[:, None, None, None] ** slope * 1e-3 * (1 + 0.1 * rng.random((2, 1, 128, 20)))
        for i, k in enumerate(self.settings.orders):
            off[i, :, :: 128 // k] = own
        each = lambda value: dict.fromkeys(continuous.WAYS, value)
        floor = 1 + 0.01 * rng.random((2, 1, 128, 20))
        noise = 1 + 0.01 * rng.random((2, 1, 128, 20))
        return continuous.Results(
            steps=np.array([1]), kappa=each(kappa), profile={"rings": off, "pixels": pixels * floor * noise},
            size=each(np.ones((2, 1))), floor=floor, round_trip=np.ones(128),
            constant=np.full((2, 1, 20), constant), members={},
        )  # fmt: skip

    def test_true(self):
        assert outcomes(continuous_claims(self.settings, self._results())) == ["holds"] * 5

    @pytest.mark.parametrize(
        ("change", "failing"),
        [({"constant": 1e-4}, 0), ({"own": 1e-5}, 1), ({"slope": 0.5}, 2), ({"pixels": 5.0}, 3)],
    )
    def test_false(self, change, failing):
        assert outcomes(continuous_claims(self.settings, self._results(**change)))[failing] == "fails"


class TestFiniteWidthClaims:
    settings = finite_width.Settings(
        widths=(8, 16, 32),
        channels=(8, 16, 32),
        group_channels=(4,),
        members=256,
        cnn_members=256,
        sizes=(1, 2, 4),
        steps=(1,),
    )

    def _cell(self, *, excess=lambda n: 1.6 / n, common=0.0, bias=0.7):
        """Deviations by kind and width, with variance 1 + excess(n), `common` to all members or `bias`."""
        rng = np.random.default_rng(0)
        return {
            (kind, n): np.sqrt(1 + excess(n)) * rng.normal(size=(1, 256, 500)) + shift * np.ones(500)
            for kind, shift in (("complete", common), ("partial", bias))
            for n in self.settings.widths
        }

    def _results(self, *, change=0.0, **cell):
        """Of MLPs that are `cell` on digits, CNNs as theory says, and exact networks that change by `change`.

        The closed form has the variance 1.
        """
        true, made = self._cell(), self._cell(**cell)
        cells = {("mlp", "ising"): true, ("mlp", "digits"): made, ("cnn", "digits"): true}
        changes = {(*key, *at): values for key, of in cells.items() for at, values in of.items()}
        changes["gcnn", "digits", "none", 4] = np.array([[[0.0, 1e-7], [0.0, change]]])
        keys = [*((*key, kind) for key in cells for kind in finite_width.KINDS), ("gcnn", "digits", "none")]
        return finite_width.Results(
            titles={"ising": "energies", "digits": "digits"}, steps=np.array([1]), changes=changes,
            fluctuation=dict.fromkeys(keys, np.ones(1)),
            bias={key: np.array([0.49 if key[2] == "partial" else 0.0]) for key in keys},
        )  # fmt: skip

    def _of(self, architecture, **cell):
        """The verdicts on one architecture."""
        return outcomes(finite_width.architecture_claims(self.settings, self._results(**cell), architecture))

    def test_true(self):
        assert outcomes(finite_width.claims(self.settings, self._results())) == [*["holds"] * 5, _UNDECIDED] * 2 + [
            "holds"
        ]

    def test_a_common_part_on_one_task_fails_that_architecture_alone(self):
        assert self._of("mlp", common=0.5)[:2] == ["fails"] * 2
        assert self._of("cnn", common=0.5) == [*["holds"] * 5, _UNDECIDED]

    def test_an_excess_that_stays_and_another_bias_fail(self):
        assert self._of("mlp", excess=lambda n: 0.3)[2] == "fails"
        assert self._of("mlp", bias=1.2)[3] == "fails"

    @pytest.mark.parametrize(("change", "verdict"), [(1e-6, "holds"), (1e-3, "fails"), (np.nan, "undecided")])
    def test_group_convolutional_networks_are_invariant_to_rounding_or_fail(self, change, verdict):
        assert finite_width.group_claim(self.settings, self._results(change=change)).outcome == verdict


@pytest.mark.slow
@pytest.mark.parametrize("side", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_group_convolutional_networks_of_the_finite_width_study_are_invariant_at_width_2_and_cnns_are_not(side):
    task = finite_width.Problem("", np.zeros((1, side, side, 1)), np.zeros(1), np.zeros((1, side, side, 1)))
    x = np.random.default_rng(0).normal(size=(2, side, side, 1))
    change = {}
    for architecture in ("gcnn", "cnn"):
        net = finite_width.network(finite_width.Settings(), architecture, 2, task)
        params = net.init(jax.random.key(0), (side, side, 1), "float64")
        outputs = net.apply(params, np.concatenate([x, np.rot90(x, axes=(1, 2))]))
        change[architecture] = np.abs(np.subtract(*np.split(np.asarray(outputs), 2))).max()
    assert change["gcnn"] < 1e-12
    assert change["cnn"] > 1e-2


def test_ensembles_of_the_finite_width_study_have_seeds_of_their_own_and_those_on_energies_theirs_of_old():
    settings = finite_width.Settings()
    seeds = [
        finite_width._seed(settings, architecture, task, width, kind)
        for architecture in ("mlp", "cnn")
        for task in ("ising", "digits", "fashion_mnist")
        for width in (8, 16)
        for kind in finite_width.KINDS
    ]
    seeds += [finite_width._seed(settings, "gcnn", task, 8, "none") for task in ("ising", "digits")]
    assert len(set(seeds)) == len(seeds)
    old = np.random.SeedSequence((0, 16, 1)).generate_state(1)[0]
    assert finite_width._seed(settings, "mlp", "ising", 16, "partial") == old


class TestOtherEnsemblesClaims:
    settings = other_ensembles.Settings(members=256, runs=64, sizes=(1, 2, 4))

    def _results(
        self, *, closed=0.0, common=0.0, broken=0.1, control=1.0, draws=True, posteriors=0.0,
        symmetrised=0.0, expanded=0.2,
    ):  # fmt: skip
        rng = np.random.default_rng(0)
        closed_forms = {kind: np.full(2, closed) for kind in other_ensembles.CLOSED} | {"bagged-copies": np.ones(2)}
        changes = {kind: rng.normal(size=(256, 50)) + common for kind in other_ensembles.INDEPENDENT}
        # nearly alike: of equal ones the power would be a rounding error, which differs between processors
        alike = 1 + 0.01 * np.array([0, 1, -1, 2])[:, None, None]
        changes["unaugmented"] = rng.normal(size=(256, 50)) + control * rng.normal(size=50)
        broken = broken * (1 + 0.1 * rng.random(10))
        one = rng.normal(size=(64, 50))
        draw = lambda common, own: alike * common * one + own * rng.normal(size=(4, 64, 50))
        changes["variational"] = rng.normal(size=(64, 50)) + posteriors
        changes |= {"draws": draw(float(draws), float(not draws)), "expanded": draw(expanded, 0.2)}
        changes |= {kind: draw(symmetrised, 1.0) for kind in ("averaged", "projected")}
        misfits = {kind: 1 + rng.random(64) for kind in ("draws", "averaged", "projected", "expanded")}
        return other_ensembles.Results(closed_forms, changes, broken, misfits)

    def test_true(self):
        claims = other_ensembles_claims(self.settings, self._results())
        assert outcomes(claims) == ["holds"] * 10
        assert [v.kind for v in claims] == ["ours"] * 4 + ["source"] + ["ours"] * 4 + ["source"]

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(
        ("change", "failing"),
        [
            ({"closed": 1e-4}, 0),
            ({"broken": 1e-4}, 1),
            ({"common": 0.5}, 2),
            ({"common": 1.0}, 3),
            ({"common": 0.5}, 4),
            ({"control": 0.0}, 5),
            ({"draws": False}, 6),
            ({"posteriors": 0.5}, 7),
            ({"symmetrised": 1.0}, 8),
            ({"expanded": 2.0}, 9),
        ],
    )
    def test_false(self, change, failing):
        assert outcomes(other_ensembles_claims(self.settings, self._results(**change)))[failing] == "fails"


class TestSamplingClaims:
    settings = sampling.Settings(budgets=(1, 2, 4), times=(0.1, 1.0), draws=60)

    def _results(self, **factors):
        """Violations b^(−1/2), doubled by training, times a factor by strategy."""
        rng = np.random.default_rng(0)
        shape = (3, 60, 2, 2)
        base = np.array([1.0, 2**-0.5, 0.5])[:, None, None, None] * np.array([1.0, 2.0])[:, None]
        scale = {"subgroup": 0.3, "own": 0.7, "shared": 1.0, "important": 0.8, "uniform": 1.0, "nearby": 1.0, **factors}
        draw = lambda s: scale[s] * base * np.exp(0.02 * rng.normal(size=shape))
        tables = {s: draw(s) if s in RANDOM else draw(s)[:, :1] for s in STRATEGIES}
        return sampling.Results(np.array([0.1, 1.0]), tables, tables, np.zeros((2, 2)))

    def test_true(self):
        assert outcomes(sampling_claims(self.settings, self._results())) == ["holds"] * 6

    @pytest.mark.parametrize(
        ("strategy", "factor", "failing"), [("own", 1.5, 1), ("subgroup", 1.0, 2), ("important", 1.5, 3)]
    )
    def test_false(self, strategy, factor, failing):
        assert outcomes(sampling_claims(self.settings, self._results(**{strategy: factor})))[failing] == "fails"
