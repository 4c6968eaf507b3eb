"""What is claimed of few images, and what each verdict means for somebody who must choose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from equitangents.statistics import exactly, shared_level
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, Records, claim, in_words, ours, theirs, to_rounding
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import EQUIVARIANT_KERNELS, SYNERGY_AND_SYMMETRY, WITHOUT_TANGENTS
from equitangents_studies.framework.works import SMALL_DATA as THEIRS
from equitangents_studies.small_data import study
from equitangents_studies.small_data.study import CNN, FOREST, Results, Settings, kernel_name

ALIKE = 1.0  # percentage points by which accuracies may differ that count as alike
BEST = "Myrtle-5 NTK"  # named before anything was measured: the form that the trained CNN has
LAST = 640  # training images up to which the source states its lead
LEAD = (1.0, 3.0)  # percentage points
_PAIRED = "percentage points of the test images; the same draws, test images and flips for both."


def leads(settings: Settings, results: Results, one: str, other: str, level: float = 0.95) -> Records:
    """By size: accuracy of `one` minus that of `other`, in percentage points."""
    return Records.over(
        lambda size: results.lead(one, other, settings.sizes.index(size), level),
        lambda size: f"{size:,} training images",
        size=settings.sizes,
    )


def covers(settings: Settings) -> str:
    """What intervals are over."""
    return covered(settings.draws, "draws from one pool")


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's lead up to 640 images and what comes after, comparisons over all sizes, averages over flips."""
    few = [size for size in settings.sizes if size <= LAST]
    myrtle = lambda phi, kind: kernel_name("Myrtle-5", phi, kind)
    found = _published(settings, results, few) if few else []
    found += [_beyond(settings, results, size) for size in settings.sizes if size > LAST]
    found += [
        _ahead(
            settings,
            results,
            BEST,
            FOREST,
            "a random forest that sees both copies",
            "our question: the source has forests on tables of numbers",
            "Random forests are no rival on images: the kernel is ahead by {span} points.",
            "A random forest does as well: the lead of the kernel is {span} points.",
        ),
        _ahead(
            settings,
            results,
            BEST,
            kernel_name("FCN", "relu", "ntk"),
            "the kernel of dense layers",
            "our question: do convolutions pay?",
            "Even a handful of images is better read through windows: {span} points.",
            "With few images dense layers can do as well: the lead of convolutions is {span} points.",
        ),
        _ahead(
            settings,
            results,
            myrtle("exponential", "nngp"),
            myrtle("relu", "nngp"),
            "ReLU’s",
            "our question: arXiv 2003.02237 finds the exponential somewhat better on all of CIFAR-10",
            "Take the normalised exponential kernel: it is ahead by {span} points.",
            "The normalised exponential does not pay with few images: it is ahead by {span} points.",
        ),
        _alike(settings, results, myrtle("relu", "nngp"), BEST),
        to_rounding(
            "A kernel averaged over flips predicts what training on both copies of every image does, to rounding",
            {name: exactly(value) for name, value in results.equal.items()},
            measure="Largest difference of predictions relative to the largest, kernel ridge regression in float64, "
            f"{settings.checked} images and their flips.",
            by=theirs(EQUIVARIANT_KERNELS, "Theorem 5.1 of arXiv 2406.06504", "equal; the same algebra for a ridge"),
            holds="Average the kernel: the copies need not be trained on, and matrices stay half as large.",
            fails="Averaged kernels and training on both copies differ here: train on both.",
        ),
    ]
    return found


def _published(settings: Settings, results: Results, few: Sequence[int]) -> list[Claim]:
    """The source's two statements on 10 to 640 images: ahead at all sizes, and by 1 to 3 points."""
    # about all sizes: each at 95 % is a test at 95 % that it holds at all of them
    points = leads(settings, results, BEST, CNN).labelled()
    numbers = {label: e for label, e in list(points.items())[: len(few)]}
    mean = results.mean_lead(BEST, CNN, len(few))
    low, high = LEAD
    over = f"with {few[0]:,} to {few[-1]:,} images"
    span = ", ".join(f"{e.value:.1f} ({label})" for label, e in numbers.items())
    of_lead = partial(
        claim,
        measure=f"Accuracy of {BEST} minus that of a trained CNN of the same form, in {_PAIRED}",
        covers=(covers(settings), settings.draws),
        unit="percentage points",
    )
    return [
        of_lead(
            f"{over.capitalize()} {BEST} is ahead of the trained CNN by {low:g} to {high:g} points",
            numbers,
            aggregate=("the mean over sizes", mean),
            at_least=low,
            at_most=high,
            by=theirs(THEIRS, "abstract", "1 to 3 points, against ResNet-34"),
            holds=f"The kernel does what was published: {mean.value:.1f} points in the mean, by size {span}.",
            fails=f"The kernel does not do what was published: {mean.value:.1f} points in the mean, by size {span}.",
            undecided=f"The kernel may be ahead by less or more than was published: by size {span} points.",
        ),
        of_lead(
            f"{over.capitalize()} {BEST} is consistently ahead of the trained CNN",
            numbers,
            at_least=0,
            by=theirs(THEIRS, "abstract", "at every size"),
            holds=f"With so few images take the kernel: nothing needs tuning but a ridge; the lead is {span} points.",
            fails=f"Do not count on the kernel with few images: its lead is {span} points.",
            undecided=f"Whether the kernel is ahead at every size is not decided: by size {span} points.",
        ),
    ]


def _beyond(settings: Settings, results: Results, size: int) -> Claim:
    """Whether the network has caught up at a size beyond those of the source."""
    lead = results.lead(BEST, CNN, settings.sizes.index(size))
    seen = f"the kernel’s lead with {size:,} images is {lead.value:.1f} points"
    return claim(
        f"With {size:,} images {BEST} is ahead of the trained CNN by no more than {LEAD[0]:g} point",
        {f"{size:,} training images": lead},
        measure=f"Accuracy of {BEST} minus that of a trained CNN of the same form, in {_PAIRED}",
        covers=(covers(settings), settings.draws),
        at_most=LEAD[0],
        unit="percentage points",
        by=ours(f"our question: {THEIRS} has a lead up to 640 images only"),
        holds=f"The network has caught up: {seen}.",
        fails=f"The network has not caught up after {settings.passes(size):,} passes over its images: {seen}. Longer "
        "training may help it.",
        undecided=f"Whether the network has caught up is not decided: {seen}.",
    )


def _ahead(
    settings: Settings, results: Results, one: str, other: str, named: str, source: str, holds: str, fails: str
) -> Claim:
    """Whether one model is ahead of another in the mean over sizes; `{span}` in the sentences is that of all sizes."""
    numbers = leads(settings, results, one, other, shared_level(len(settings.sizes)))
    span = numbers.span(".2g")
    return claim(
        f"{one} classifies better than {named if other == FOREST else other}",
        numbers,
        aggregate=("the mean over sizes", results.mean_lead(one, other, len(settings.sizes))),
        measure=f"Accuracy of {one} minus that of {named}, in {_PAIRED}",
        covers=(covers(settings), settings.draws),
        at_least=0,
        unit="percentage points",
        by=ours(source),
        holds=holds.format(span=span),
        fails=fails.format(span=span),
        undecided=f"These draws do not decide it: differences are {span} points.",
    )


def _alike(settings: Settings, results: Results, one: str, other: str) -> Claim:
    """Whether the NNGP classifies as the NTK does."""
    numbers = leads(settings, results, one, other, shared_level(len(settings.sizes)))
    span = numbers.span(".2g")
    return claim(
        f"{one} and {other} classify alike, to within {ALIKE:g} percentage point",
        numbers,
        aggregate=("the mean over sizes", results.mean_lead(one, other, len(settings.sizes))),
        measure=f"Accuracy of {one} minus that of {other}, in {_PAIRED}",
        covers=(covers(settings), settings.draws),
        at_least=-ALIKE,
        at_most=ALIKE,
        unit="percentage points",
        by=theirs(SYNERGY_AND_SYMMETRY, "footnote of arXiv 2207.04612", "about equal; the bound is our choice"),
        holds=f"The NNGP suffices, which needs no tangents: differences are {span} points.",
        fails=f"The choice between NNGP and NTK matters: differences are {span} points.",
        undecided=f"Whether NNGP and NTK classify alike is not decided: differences are {span} points.",
    )


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    few = [size for size in settings.sizes if size <= LAST] or list(settings.sizes)
    mean = results.mean_lead(BEST, CNN, len(few))
    shown = in_words(mean)
    over = f"{few[0]:,} to {few[-1]:,} images"
    title = f"With {over} the {BEST} is {shown.split(' (')[0]} percentage points ahead of the trained CNN"
    said = (
        f"In the mean over training sets of {over} the kernel classifies {shown} percentage points of the test images "
        "more than a trained CNN of the same form (the source, against ResNet-34: 1 to 3 points)."
    )
    return title, said


STUDY: Study[Settings, Results] = Study(
    study.PRESETS, study.measure, claims, (THEIRS, WITHOUT_TANGENTS), study.check_settings
)
