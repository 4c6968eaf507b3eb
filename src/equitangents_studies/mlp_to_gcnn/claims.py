"""What is claimed of MLPs with augmentation and of group-convolutional networks without, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equitangents.report import format_number
from equitangents.statistics import Estimate, exactly, power_law, shared_level
from equitangents_studies.framework.claims import ROUNDING, Claim, Records, claim, exact, ours, theirs, to_rounding
from equitangents_studies.framework.drawing import name_of
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.mlp_to_gcnn import study
from equitangents_studies.mlp_to_gcnn.study import SETS, Results, Settings, recorded_steps, trained_shares


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The theorem at infinite width, its counterpart for frozen kernels, and how trained networks approach it."""
    wide, last, times = max(settings.trained_widths), max(settings.steps), range(len(results.times))
    steps = len([step for step in recorded_steps(settings) if step > 0])

    def at_infinite_width(table: np.ndarray, sets: Sequence[str]) -> Mapping[str, Estimate]:
        of = lambda t, name: exactly(float(table[t, SETS.index(name)]))
        words = lambda t, name: f"{name_of(results.times[t])}, {name}"
        return Records.over(of, words, t=times, name=sets).labelled()

    theorem, control = (
        at_infinite_width(results.distance, SETS),
        at_infinite_width(results.without_augmentation, ["test"]),
    )
    kernels = {f"{k} itself": exactly(v) for k, v in zip(("NNGP", "NTK"), results.kernel_distance, strict=True)}
    rate = power_law(np.array(settings.widths), results.squares, seed=settings.seed)
    shares = trained_shares(settings, results, [wide], shared_level(steps * len(SETS))).times(100)
    largest = shares.values.max()
    distance = "Largest difference of the two mean predictions relative to the largest prediction."
    return [
        to_rounding(
            "At infinite width augmented MLPs and group-convolutional networks have the same mean, to rounding, at all "
            "times, on and off the data",
            {**theorem, **kernels},
            measure=distance + " The augmented data are trained on explicitly.",
            by=theirs(THEIRS, "Theorem 5.2", "equal"),
            holds="If only the mean of very wide networks matters, choose by cost: an MLP that sees every "
            "rotation, or a group-convolutional network that sees one.",
            fails="Do not put a group-convolutional network in place of an augmented MLP: here their means "
            "differ even at infinite width.",
        ),
        exact(
            "Without augmentation the means of MLPs and of group-convolutional networks at infinite width differ on "
            "the test images, by more than 1 % of the largest prediction",
            control,
            measure=distance,
            at_least=0.01,
            by=ours("our control"),
            holds="Augmentation matters on these data: without it an MLP predicts something else.",
            fails="On these data augmentation hardly matters at some time, so that equal means say little: try "
            "other data.",
        ),
        to_rounding(
            "Frozen kernels of an augmented MLP and of the group-convolutional network with its weights predict the "
            "same, to rounding",
            {
                f"width {width}": exactly(float(table.max()))
                for width, table in zip(settings.widths, results.exact, strict=True)
            },
            measure=distance + " Worst of all times and inputs, one network of every width. The MLP’s kernel is "
            "averaged over the group’s copies of its weights; the group-convolutional network has the window {e} on "
            "the group. Both start at zero output.",
            by=theirs(THEIRS, "review", "equal for single networks that start at zero output"),
            holds="Augmentation and architecture can be exchanged at finite width too, for networks that start at "
            "zero output and stay close to their initialisation.",
            fails="Augmentation and architecture cannot be exchanged for these finite networks, even with the "
            "same weights.",
        ),
        claim(
            "With independent weights the predictions from frozen kernels of augmented MLPs and of group-convolutional "
            "networks approach one another as one over the square root of the width",
            {"late in training, test": rate},
            measure="Exponent of the root mean square difference of predictions on test images against width; full "
            "windows on the group.",
            covers="draws of networks",
            at_least=-0.7,
            at_most=-0.3,
            by=ours("theory of kernels that fluctuate as 1/√width; the bounds are our choice", stated="−1/2"),
            holds="Four times the width roughly halves the difference between one network of each kind.",
            fails="Four times the width does not roughly halve the difference between one network of each kind: "
            "measure it at the width that is to be used.",
            undecided="How fast the difference between one network of each kind falls with the width is not "
            "decided: more draws would tell.",
        ),
        claim(
            f"Trained MLPs and group-convolutional networks of width {wide} that start at zero output have the same "
            f"mean up to step {last}, to within 5 % of the mean square prediction",
            shares,
            measure="Squared distance of the two means as a share of the mean square prediction of one MLP; free of "
            "the bias that a finite number of members brings, so it may come out negative.",
            covers="members",
            at_most=5,
            unit="%",
            by=ours("the theorem says 0 in the limit of width; the bound is our choice"),
            holds=f"At width {wide} an ensemble of either kind can stand in for the mean of the other: the "
            f"largest estimate of the squared distance is {largest:.1f} %.",
            fails=f"At width {wide} the choice between augmentation and architecture changes the mean: the largest "
            f"estimate of the squared distance is {largest:.1f} %.",
            undecided=f"Whether either kind can stand in for the other at width {wide} is not decided: more "
            "members would tell.",
        ),
        *by_depth_claims(settings, results),
    ]


def by_depth_claims(settings: Settings, results: Results) -> list[Claim]:
    """Both theorems at every depth that was solved, and frozen kernels of the same weights."""
    when = [name_of(time) for time in results.times]
    depths = lambda layers: f"{layers} hidden layer{'' if layers == 1 else 's'}"
    made = []
    for theorem, plain, windows in (("5.2", "MLPs", "full"), ("5.3", "CNNs", "3×3")):
        solved = [depth for name, depth in results.deep_distance if name == theorem]
        over = f"{min(solved)} to {max(solved)}" if len(solved) > 1 else str(min(solved))
        means = {
            f"{depths(depth)}, {when[t]}, {SETS[s]}": exactly(value)
            for depth in solved
            for (t, s), value in np.ndenumerate(results.deep_distance[theorem, depth])
        }
        kernels = {
            f"{depths(depth)}, {name} itself": exactly(value)
            for depth in solved
            for name, value in zip(("NNGP", "NTK"), results.deep_kernels[theorem, depth], strict=True)
        }
        made.append(
            to_rounding(
                f"At infinite width augmented {plain} and group-convolutional networks with {windows} windows have the "
                f"same mean and kernel, to rounding, with {over} hidden layers",
                {**means, **kernels},
                measure="Largest difference of the mean predictions relative to the largest prediction, at all times, "
                "on and off the data, and of the kernel from the orbit mean of the other; augmented data are trained "
                "on explicitly.",
                by=theirs(THEIRS, f"Theorem {theorem}", "equal, at any depth"),
                holds=f"The exchange of augmentation for architecture does not depend on the depth of {plain}.",
                fails=f"At some depth the means of augmented {plain} and of group-convolutional networks differ.",
            )
        )
    if results.deep_exact:
        worst = {depths(depth): exactly(float(table.max())) for depth, table in results.deep_exact.items()}
        made.append(
            to_rounding(
                f"Frozen kernels of one augmented MLP of width {settings.depth_width} and of the group-convolutional "
                "network with its weights predict the same, to rounding, at several depths",
                worst,
                measure="Largest difference of the predictions relative to the largest one, worst of all times and "
                "inputs; otherwise as for the widths.",
                by=theirs(THEIRS, "review", "equal, at any depth"),
                holds="For networks that start at zero output and stay close to their initialisation the exchange "
                "holds at finite width, shallow or deep.",
                fails="At some depth frozen kernels with the same weights predict different things.",
            )
        )
    return made


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    means = [table.max() for table in results.deep_distance.values()]
    infinite, bare = float(np.max([results.distance.max(), *means])), float(results.without_augmentation.max())
    single = float(np.max([results.exact.max(), *(table.max() for table in results.deep_exact.values())]))
    equal = infinite <= ROUNDING and single <= ROUNDING
    title = (
        "Augmented MLPs and group-convolutional networks have one and the same mean"
        if equal
        else f"Augmented MLPs and group-convolutional networks differ by {format_number(max(infinite, single))}"
    )
    said = (
        "The largest difference of the two means, relative to the largest prediction, is "
        f"{format_number(infinite)} at infinite width, at all times and depths, on and off the data, and "
        f"{format_number(single)} for single networks of finite width with their own kernels and zero output (the "
        f"source: equal, Theorem 5.2 and review); without augmentation it is {format_number(bare)}."
    )
    return title, said


STUDY: Study[Settings, Results] = Study(study.PRESETS, study.measure, claims, (THEIRS,), study.check_settings)
