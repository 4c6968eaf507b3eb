"""What theory says of tangent kernels in training, and whether the measured exponents agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equitangents.report import with_interval
from equitangents.statistics import Estimate, log_ratio, shared_level
from equitangents_studies.framework.claims import Claim, Records, after, claim
from equitangents_studies.frozen_kernel.parametrisations import TITLES
from equitangents_studies.frozen_kernel.results import Results
from equitangents_studies.frozen_kernel.settings import NAMES, Settings

_THEOREM = "Jacot et al. 2018, Lee et al. 2019 (‖Θ_t − Θ_0‖ = O(1/√n) at all times)"
_PLACE = "Lee et al. 2019, Theorem 2.1"
_ORDER = (-1.1, -0.9)  # around the −1 of perturbation theory
_CONDITIONS = "Lipschitz and twice differentiable with a bounded second derivative"


def exponents(
    settings: Settings, results: Results, parametrisations: Sequence[str], phis: Sequence[str], steps: Sequence[int]
) -> Records:
    """Exponents of the movement against width, each at the level at which all hold together."""
    level = shared_level(len(parametrisations) * len(phis) * len(steps))
    return Records.over(
        lambda parametrisation, phi, step: results.exponent((phi, parametrisation), step, level),
        lambda parametrisation, phi, step: f"{TITLES[parametrisation]}, {NAMES[phi]}, {after(step)}",
        parametrisation=parametrisations,
        phi=phis,
        step=steps,
    )


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The bound for smooth nonlinearities, the same question of ReLU and of standard parametrisation, the order of
    perturbation theory, and the output scale at which nothing freezes.
    """
    steps, (smooth, relu) = [int(s) for s in results.steps], settings.nonlinearities
    last, widest = steps[-1], int(results.widths[-1])
    reach = f"{results.widths[0]} to {widest}"
    of = lambda parametrisation, phis, at: exponents(settings, results, [parametrisation], phis, at)
    measure = f"Exponent of ‖Θ_t − Θ_0‖/‖Θ_0‖, geometric mean over networks, against width, {reach}"
    each = f"{measure}, at every recorded step."
    bounded: dict[str, Any] = {"measure": each, "covers": "networks", "at_most": -0.5, "stated": "at most −1/2"}
    here, there, standard = of("ntk", [smooth], steps), of("ntk", [relu], steps), of("standard", [smooth, relu], steps)
    orders, scaled = of("ntk", [smooth, relu], [last]), of("mean-field", [smooth, relu], [last])
    each_phi = [results.exponent((phi, "ntk"), last) for phi in (smooth, relu)]
    mean = Estimate(*(sum(ends) / 2 for ends in zip(*((e.value, e.low, e.high) for e in each_phi), strict=True)))
    slope = f"its exponents are {orders.span('.2f')}, on average {with_interval(mean.value, mean.interval)}"
    moved = lambda phi, parametrisation: results.movement[phi, parametrisation][-1, :, -1]
    quotients = Records.over(
        lambda phi: log_ratio(moved(phi, "ntk"), moved(phi, "mean-field"), confidence=shared_level(2)),
        lambda phi: NAMES[phi],
        phi=[smooth, relu],
    )
    return [
        claim(
            f"With {NAMES[smooth]} in NTK parametrisation the tangent kernel’s relative movement falls at least as "
            "fast as one over the square root of the width",
            here,
            origin="source",
            source=_THEOREM,
            place=_PLACE,
            holds=f"Kernels of smooth networks freeze as theory says: exponents are {here.span('.2f')}. The "
            "wider the network, the nearer its training to what its kernel at initialisation predicts.",
            fails=f"At these widths the kernel does not freeze as fast as its bound in the limit (exponents are "
            f"{here.span('.2f')}): compare trained networks with the closed form before relying on it.",
            undecided=f"Whether the kernel freezes as fast as its bound is not decided (exponents are "
            f"{here.span('.2f')}): train more networks, or wider ones.",
            **bounded,
        ),
        claim(
            "With ReLU in NTK parametrisation the tangent kernel’s relative movement falls at least as fast as one "
            "over the square root of the width, although ReLU does not meet the theorem’s conditions",
            there,
            origin="ours",
            source=f"our question: the theorem asks for nonlinearities that are {_CONDITIONS}, which ReLU is not",
            holds=f"ReLU networks freeze here, too, as a measurement, not by the theorem: exponents are "
            f"{there.span('.2f')}.",
            fails=f"Kernels of ReLU networks do not freeze as fast as those that the theorem covers: exponents are "
            f"{there.span('.2f')}.",
            undecided=f"Whether kernels of ReLU networks freeze as fast as the theorem’s is not decided: exponents are "
            f"{there.span('.2f')}.",
            **bounded,
        ),
        claim(
            "In standard parametrisation, with learning rates of the order 1/n, the tangent kernel’s relative movement "
            "falls at least as fast as one over the square root of the width",
            standard,
            origin="source",
            source=_THEOREM + "; ReLU is our addition",
            place=_PLACE,
            holds="Networks as other libraries set them up freeze as well when their learning rate falls as 1/n: "
            f"exponents are {standard.span('.2f')}.",
            fails="Networks as other libraries set them up do not all freeze at these widths: exponents are "
            f"{standard.span('.2f')}.",
            undecided="Whether networks as other libraries set them up freeze is not decided: exponents are "
            f"{standard.span('.2f')}.",
            **bounded,
        ),
        claim(
            f"In NTK parametrisation the tangent kernel’s relative movement {after(last)} falls as one over the width, "
            "faster than its bound",
            orders,
            measure=f"{measure}, {after(last)}.",
            covers="networks",
            at_least=_ORDER[0],
            at_most=_ORDER[1],
            aggregate=("the mean over both nonlinearities", mean),
            repeated=settings.networks,
            origin="ours",
            source="perturbation theory in 1/n (Dyer & Gur-Ari 2020; Huang & Yau 2020); the bounds are our choice",
            stated="−1",
            holds="Twice the width roughly halves the movement: extrapolate from two widths to the one that is needed.",
            fails=f"At widths {reach} the movement does not fall as 1/n yet: {slope}, and −1 lies outside. Do not "
            "extrapolate it from two widths by theory’s order.",
            undecided=f"Whether the movement falls as 1/n at widths {reach} is not decided: {slope}.",
        ),
        claim(
            f"With a mean-field output scale the tangent kernel’s relative movement {after(last)} does not fall with "
            "the width",
            scaled,
            measure=f"{measure}, {after(last)}.",
            covers="networks",
            at_least=-0.25,
            origin="ours",
            source="theory of feature learning (Chizat et al. 2019; Yang & Hu 2021); the bound is our choice",
            stated="0",
            holds="It is the output scale, not the width alone, that freezes kernels: with this one, wider networks "
            "come no nearer to their kernel at initialisation.",
            fails="Kernels freeze in spite of the mean-field output scale here: train longer, or on labels that ask "
            "for features.",
            undecided="Whether kernels freeze with the mean-field output scale is not decided: exponents are "
            f"{scaled.span('.2f')}.",
        ),
        claim(
            f"At width {widest} the tangent kernel moves less than half as far in NTK parametrisation as with a "
            f"mean-field output scale, {after(last)}",
            quotients,
            measure="Relative movement in NTK parametrisation over that with a mean-field output scale, geometric "
            "means over networks.",
            covers="networks",
            at_most=0.5,
            origin="ours",
            source="ours: the same networks, trained as long, with another output scale",
            holds="The same networks train near their kernel or far from it by their output scale alone: the quotient "
            f"of the movements is {quotients.span('.2g')}.",
            fails="At this width the output scale changes little: networks in NTK parametrisation are still too "
            "narrow to train near their kernel.",
            undecided="Whether the output scale matters by that much at this width is not decided: train more of the "
            "networks.",
        ),
    ]
