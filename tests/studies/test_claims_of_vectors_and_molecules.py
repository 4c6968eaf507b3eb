"""Claims of cross-product, forces and molecules on made-up numbers; what random draws enter is never called exact."""

import dataclasses

import numpy as np
import pytest

from equitangents import studies
from equitangents_studies import cross_product, forces, molecules
from equitangents_studies.common.scores import largest
from equitangents_studies.cross_product import claims as cross_product_claims
from equitangents_studies.data import DataNotFoundError
from equitangents_studies.framework.claims import EXACT
from studies.miniatures import TINY
from studies.small import outcomes

UNDECIDED = "undecided"


class TestLargestOfAFew:
    def test_a_further_value_lies_below_the_upper_end_as_often_as_promised(self):
        values = np.exp(np.random.default_rng(0).normal(size=(2000, 9)))
        below = [further <= largest(np.array(seen), level=0.9).high for *seen, further in values]
        assert np.mean(below) > 0.9

    def test_it_is_the_largest_that_was_seen_and_its_own_lower_end(self):
        found = largest(np.array([0.1, 0.4, 0.2]))
        assert found.value == found.low == 0.4 < found.high < np.inf

    @pytest.mark.parametrize("values", [[0.1], [0.0, 0.1], [np.nan, 0.1]])
    def test_one_value_or_none_that_is_positive_gives_no_interval(self, values):
        assert np.isnan(largest(np.array(values)).high)


class TestCrossProduct:
    settings = cross_product.Settings(groups=("T",), trained_groups=("T",), members=200, test_pairs=6)

    def results(
        self, *, common=0.0, spread=1.0, infinite=0.0, worst=0.1, between=0.1, plain=0.5, shift=0.0, shuffled=0.3
    ):
        rng = np.random.default_rng(0)
        times, pairs, order = 2, 6, 3
        outputs = rng.normal(size=(times, 200, 1, pairs, 3)) + spread * rng.normal(size=(times, 200, order, pairs, 3))
        outputs[:, :, 1:] += common * rng.normal(size=(times, 1, order - 1, pairs, 3))
        some = rng.uniform(1, 1.2, (times, pairs))
        table = {"none": np.zeros((times, 3)), "T": np.full((times, 3), infinite)}
        share = worst * some
        share[-1, 0] *= 1.2
        return cross_product.Results(
            times=np.array([0, 1]), outputs={("T", key): outputs for key in cross_product.SETS}, mean_error=table,
            covariance_error=table | {"none": np.full((times, 3), plain)},
            between={"none": some, "T": between * some[::-1]},
            worst={"T": share, "none": some}, bound={"T": np.ones((times, pairs)), "none": some},
            shift={"T": np.full(6, shift)}, shuffled={"T": np.full(6, shuffled)},
        )  # fmt: skip

    def test_true(self):
        found = cross_product_claims(self.settings, self.results())
        assert outcomes(found) == ["holds"] * 10
        assert [c.covers == EXACT for c in found] == [True] * 3 + [False] * 5 + [True] * 2

    @pytest.mark.parametrize(
        ("change", "failing"),
        [({"infinite": 1e-6}, 0), ({"infinite": 1e-6}, 1), ({"spread": 1e-4}, 3), ({"common": 1.0}, 4),
         ({"common": 2.0}, 5), ({"between": 10.0}, 7), ({"worst": 0.9}, 6), ({"shift": 1e-6}, 2), ({"plain": 1e-6}, 8),
         ({"shuffled": 1e-6}, 9)],
    )  # fmt: skip
    def test_false(self, change, failing):
        assert outcomes(cross_product_claims(self.settings, self.results(**change)))[failing] == "fails"

    def test_pairs_that_come_near_the_bound_decide_nothing_about_further_ones(self):
        near = {"T": np.tile([0.2, 0.4, 0.5, 0.6, 0.8, 0.95], (2, 1))}
        results = dataclasses.replace(self.results(), worst=near)
        assert outcomes(cross_product_claims(self.settings, results))[6] == UNDECIDED


class TestForces:
    settings = forces.Settings(sizes=(2, 4), test=6)

    def results(self, *, ratio=0.5, turned=(1e-4, 2e-4, 1e-4), law=1e-9):
        error = np.random.default_rng(0).uniform(0.5, 1, (2, 6))
        errors = {"energies": error, "forces": error, "both": ratio * error * np.linspace(0.9, 1.1, 6)}
        turned = np.array(turned)
        return forces.Results(errors, errors, law, law, turned, turned, (1.0, 1.0), {})

    def test_true(self):
        found = forces.claims(self.settings, self.results())
        assert outcomes(found) == ["holds"] * 6
        assert [c.covers == EXACT for c in found] == [False, False, False, True, True, False]

    def test_false(self):
        assert (
            outcomes(forces.claims(self.settings, self.results(ratio=3.0, law=1e-3, turned=(0.02,) * 3)))
            == ["fails"] * 6
        )

    def test_one_turn_decides_nothing(self):
        assert outcomes(forces.claims(self.settings, self.results(turned=(1e-4,))))[5] == UNDECIDED


class TestMolecules:
    settings = molecules.Settings(sizes=(20, 40), splits=5, test=6, moved=6)

    def results(self, *, ratio=0.5, turned=1e-4, relabelled=1e-13):
        rng = np.random.default_rng(0)
        error = rng.uniform(0.5, 1, (5, 2, 6))
        errors = dict.fromkeys(("mlp", "coulomb", "soap", "elements"), error)
        errors["so3"] = ratio * error * rng.uniform(0.9, 1.1, (5, 1, 1))
        moved = {"so3": turned * rng.uniform(0.5, 1, (6, 3))}, {"so3": np.full((6, 3), relabelled)}
        return molecules.Results(errors, {}, *moved)

    def test_true(self):
        found = molecules.claims(self.settings, self.results())
        assert outcomes(found) == ["holds"] * 5
        assert found[0].shown == "the geometric mean over training sizes"
        assert 0.45 < found[0].number < 0.55
        assert [c.covers == EXACT for c in found] == [False] * 4 + [True]

    def test_false(self):
        found = molecules.claims(self.settings, self.results(ratio=2.0, turned=1.0, relabelled=1e-3))
        assert outcomes(found) == ["fails"] * 5

    def test_without_soap_there_is_no_claim_about_it(self):
        results = self.results()
        fewer = {name: e for name, e in results.errors.items() if name != "soap"}
        found = molecules.claims(self.settings, dataclasses.replace(results, errors=fewer))
        assert not any("SOAP" in c.statement for c in found)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [("molecules", {"data": "qm9"}, r"qm9\.npz is needed"), ("forces", {"molecule": "ethanol"}, "npz is needed")],
)
def test_data_that_are_not_there_are_missed_before_the_folder_is_touched(name, change, said, tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=said):
        studies.run(name, out=tmp_path / "run", settings={**TINY[name], **change}, progress=False)
    assert not (tmp_path / "run").exists()
