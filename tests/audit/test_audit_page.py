"""The page of an audit shows what its report holds, escapes it, and loads nothing."""

import dataclasses
import functools
import re

import numpy as np
import pytest

import equitangents as et
from audit.example_report import GUILTY, example_report
from equitangents.audit.report.numbers import Estimate, number
from equitangents.audit.report.sections import DECIDES, REASONS, Headline
from equitangents.report.render import outside_resources

VERDICTS = {
    "equivariant": ["at noise floor"],
    "equivariant within tolerance": ["within the tolerance"],
    "equivariant on its data": ["fails off the data"],
    "broken": [
        "above noise floor", "above the tolerance", "some elements", "single input", "not finite",
        "worse off the data",
    ],
    "undecided": [
        "rounding", "interpolation", "spread", "constant", "unmoved inputs", "vanishing", "noise", "interval",
        "interrupted",
    ],
}  # fmt: skip
SECTIONS = (
    "findings", "error-by-group-element", "the-worst-input", "a-typical-input", "layers", "members-and-their-mean",
    "what-was-tested", "settings", "cite",
)  # fmt: skip


@functools.cache
def drawn(**options):
    """The page of the example: figures take most of a second."""
    return example_report(**options).html()


def sections(page):
    return re.findall(r'<section id="([a-z-]+)"', page)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("order", "reflections"),
    [(4, 4), (64, 0), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((4, 0), (64, 4)))],
)
def test_every_section_is_shown_and_nothing_is_loaded(order, reflections):
    page = drawn(order=order, reflections=reflections)
    assert sections(page) == list(SECTIONS)
    assert outside_resources(page) == []
    assert ("Elements without an angle" in page) == (reflections > 0)
    assert page.count("data:image/png;base64,") == 2 * order


def test_what_was_not_measured_is_not_shown():
    report = dataclasses.replace(
        example_report(),
        layers=None,
        ensemble=None,
        data=None,
        remedies=[],
        witnesses=[],
        citations=[],
    )
    page = report.html()
    assert sections(page) == ["findings", "error-by-group-element", "what-was-tested", "settings"]
    assert "member spread" in page  # what was left out is said


@pytest.mark.slow
def test_numbers_of_the_table_are_those_of_the_report():
    report = example_report(order=8, reflections=2)
    page = drawn(order=8, reflections=2)
    for e in report.elements:
        row = re.search(rf'<th scope="row">{re.escape(e.label)}.*?</tr>', page, re.S)
        assert row, e.label
        assert number(e.error.estimate.mean) in row[0]
        assert number(e.same_prediction) in row[0]


def test_the_guilty_layer_is_named():
    assert f"<p>{GUILTY}</p>" in drawn()


@pytest.mark.slow
def test_zero_errors_can_be_drawn():
    report = example_report(order=4, reflections=0)
    spread = report.error
    zero = dataclasses.replace(spread, estimate=dataclasses.replace(spread.estimate, mean=0.0, low=0.0, high=0.0))
    zero = dataclasses.replace(zero, q05=0.0, q25=0.0, median=0.0, q75=0.0, q95=0.0, worst=0.0)
    elements = [dataclasses.replace(e, error=zero, floor=0.0) for e in report.elements]
    page = dataclasses.replace(report, elements=elements, verdict="equivariant", reason="at noise floor").html()
    assert "at noise floor" in page
    assert "nan" not in re.sub(r"base64,[^\"]*", "", page).lower().split("<style>")[0]


def test_every_input_of_an_orbit_is_shown_with_its_answer():
    page = example_report(order=4).html()
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(pictures) == 8
    assert len(set(pictures[:4])) == 4
    assert page.count("largest output: ") == 8


def test_inputs_that_are_no_images_have_no_pictures():
    page = example_report(images=False).html()
    assert "data:image/png" not in page
    assert "<td>largest output: " in page


def test_elements_that_are_no_rotations_of_the_plane_have_no_angle() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    flips = et.audit.Custom(lambda g, x: -x if g else x, name="sign")
    for group, given in (("C2", {"inputs": flips}), ("SO3", {}), ("octahedral", {})):
        report = et.audit(lambda x: x[:, :1], group, x, effort="quick", **given)
        assert all(e.angle is None for e in report.elements)
        assert "Rotations by their angle" not in report.html()
    turned = et.audit(lambda x: x[:, :1], "C4", x[:, :2], effort="quick")
    assert [e.angle for e in turned.elements] == [90, 180, 270]
    assert et.audit(lambda x: x[:, :1], "C2", x, inputs=flips, effort="quick").elements[0].label == "element 1"


@pytest.mark.parametrize("partial", [False, True])
def test_first_lines_have_at_most_120_characters(partial):
    report = example_report(order=2, reflections=0, images=False)
    contract = dataclasses.replace(report.contract, group="translations of a torus of 1,024 × 1,024 pixels" * 4)
    for verdict, reasons in VERDICTS.items():
        for reason in reasons:
            for mean in (0.0, 1.23e-15, 0.123, 12.3, 1.23e5, np.inf, np.nan):
                error = dataclasses.replace(report.error, estimate=Estimate(mean, mean, mean))
                headline = Headline("spread", "", error, 1.23e-16, mean)
                settings = {"verdict": verdict, "reason": reason, "partial": partial, "headline": headline}
                line = dataclasses.replace(report, contract=contract, **settings).first_line
                assert len(line) <= 120
                assert "noise floor 1.2·10⁻¹⁶, " in line


def test_every_reason_belongs_to_one_verdict():
    assert sorted(reason for reasons in VERDICTS.values() for reason in reasons) == sorted(REASONS)
    assert set(VERDICTS["undecided"]) == set(DECIDES)
