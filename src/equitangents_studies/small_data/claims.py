"""What is claimed of few images, and what each verdict means for somebody who must choose."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import exactly, shared_level
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim
from equitangents_studies.small_data.results import CNN, FOREST, Results, kernel_name
from equitangents_studies.small_data.settings import Settings

STATED = "stated in arXiv 1910.01663, of CIFAR-10 and ResNet-34"
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
    """A verdict for each size, then comparisons over all sizes, then that averaged kernels are what they should be."""
    few = [size for size in settings.sizes if size <= LAST]
    level = shared_level(len(settings.sizes))
    ahead = leads(settings, results, BEST, CNN, level)
    kept = [i for i, (size,) in enumerate(ahead.rows) if size <= LAST]
    only_few = Records(
        ahead.names, tuple(ahead.rows[i] for i in kept), tuple(ahead.estimates[i] for i in kept), ahead.words
    )
    found = [_at(settings, results, size) for size in settings.sizes]
    if few:
        found.append(
            _ahead(
                f"With {few[0]:,} to {few[-1]:,} images {BEST} classifies more of them rightly than the trained CNN",
                only_few,
                f"Accuracy of {BEST} minus that of a trained CNN of the same form, in {_PAIRED}",
                settings,
                STATED,
                "1 to 3 points",
                "With so few images take the kernel: nothing needs tuning but a ridge, and the lead is {span} points.",
                "Do not count on the kernel with few images: its lead is {span} points.",
            )
        )
    found += [
        _ahead(
            f"{BEST} classifies better than a random forest at every size",
            leads(settings, results, BEST, FOREST, level),
            f"Accuracy of {BEST} minus that of a random forest that sees both copies, in {_PAIRED}",
            settings,
            "stated in arXiv 1910.01663, of tables of numbers",
            "",
            "Random forests are no rival on images: the kernel is ahead by {span} points.",
            "A random forest does as well at some size: the lead of the kernel is {span} points.",
        ),
        _ahead(
            "Convolutions pay at every size: Myrtle-5 NTK classifies better than FCN NTK",
            leads(settings, results, BEST, kernel_name("FCN", "relu", "ntk"), level),
            f"Accuracy of {BEST} minus that of the kernel of dense layers, in {_PAIRED}",
            settings,
            "our question",
            "",
            "Even a handful of images is better read through windows: {span} points.",
            "With few images dense layers can do as well: the lead of convolutions is {span} points.",
        ),
        _ahead(
            "The NNGP of Myrtle-5 classifies at least as well as its NTK at every size",
            leads(settings, results, kernel_name("Myrtle-5", "relu", "nngp"), BEST, level),
            f"Accuracy of the NNGP minus that of the NTK, in {_PAIRED}",
            settings,
            "our question; arXiv 2007.15801 finds it often so with more images",
            "",
            "The NNGP suffices, which needs no tangents: it is ahead by {span} points.",
            "The choice between NNGP and NTK depends on the size: the NNGP is ahead by {span} points.",
        ),
        _ahead(
            "The normalised exponential classifies at least as well as ReLU in Myrtle-5 at every size",
            leads(
                settings,
                results,
                kernel_name("Myrtle-5", "exponential", "nngp"),
                kernel_name("Myrtle-5", "relu", "nngp"),
                level,
            ),
            f"Accuracy of the NNGP with the normalised exponential minus that with ReLU, in {_PAIRED}",
            settings,
            "our question; arXiv 2003.02237 finds the exponential somewhat better on all of CIFAR-10",
            "",
            "Take the normalised exponential kernel: it is ahead by {span} points.",
            "The normalised exponential does not pay at every size: it is ahead by {span} points.",
        ),
        claim(
            "A kernel averaged over flips predicts what training on both copies of every image does, to rounding",
            {name: exactly(value) for name, value in results.equal.items()},
            measure="Largest difference of predictions relative to the largest, kernel ridge regression in float64, "
            f"{settings.checked} images and their flips.",
            covers=EXACT,
            at_most=1e-8,
            source="Theorem 5.1 of arXiv 2406.06504; the same algebra for a ridge",
            stated="equal",
            holds="Average the kernel: the copies need not be trained on, and matrices stay half as large.",
            fails="Averaged kernels and training on both copies differ here: train on both.",
        ),
    ]
    return found


def _at(settings: Settings, results: Results, size: int) -> Claim:
    """The verdict for one size, at its own level of 95 %."""
    lead = results.lead(BEST, CNN, settings.sizes.index(size))
    low, high = LEAD
    within = size <= LAST
    said = f"With {size:,} images {BEST} is ahead of the trained CNN by "
    seen = f"the kernel's lead with {size:,} images is {lead.value:.1f} points"
    return claim(
        said + (f"{low:g} to {high:g} points" if within else f"no more than {low:g} point"),
        {f"{size:,} training images": lead},
        measure=f"Accuracy of {BEST} minus that of a trained CNN of the same form, in {_PAIRED}",
        covers=covers(settings),
        at_least=low if within else -float("inf"),
        at_most=high if within else low,
        unit="percentage points",
        source=STATED if within else "arXiv 1910.01663 states a lead up to 640 images only",
        stated="1 to 3 points" if within else "",
        holds=f"The kernel does what was published: {seen}." if within else f"The network has caught up: {seen}.",
        fails=f"The kernel does not do what was published: {seen}, outside of {low:g} to {high:g}."
        if within
        else f"The network has not caught up after {settings.passes(size):,} passes over its images: {seen}. Longer "
        "training may help it.",
        undecided=f"The kernel may be ahead by less or more than was published: {seen}, and its interval reaches "
        "across a bound."
        if within
        else f"Whether the network has caught up is not decided: {seen}.",
    )


def _ahead(
    statement: str,
    numbers: Records,
    measure: str,
    settings: Settings,
    source: str,
    stated: str,
    holds: str,
    fails: str,
) -> Claim:
    """The claim that numbers are at least 0 at every size; `{span}` in the sentences is their span."""
    span = numbers.span(".2g")
    return claim(
        statement,
        numbers,
        measure=measure,
        covers=covers(settings),
        at_least=0,
        unit="percentage points",
        source=source,
        stated=stated,
        holds=holds.format(span=span),
        fails=fails.format(span=span),
        undecided=f"The intervals do not decide it at every size: differences are {span} points.",
    )
