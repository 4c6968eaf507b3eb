"""What to cite for the methods that an audit used."""

from __future__ import annotations

from equitangents.audit.report.findings import Findings

ENSEMBLES = "Gerken and Kessel, Emergent Equivariance in Deep Ensembles, ICML 2024, arXiv:2403.03103"
KERNEL_TEST = "Gretton, Borgwardt, Rasch, Schölkopf and Smola, A Kernel Two-Sample Test, JMLR 13:723-773, 2012"
BOOTSTRAP = "Owen, The Pigeonhole Bootstrap, Annals of Applied Statistics 1(2):386-411, 2007"
SPLINES = "Unser, Splines: A Perfect Fit for Signal and Image Processing, IEEE Signal Processing Magazine 16(6), 1999"
PROCRUSTES = "Schönemann, A Generalized Solution of the Orthogonal Procrustes Problem, Psychometrika 31(1):1-10, 1966"


def used(report: Findings) -> list[str]:
    """What to cite for an audit that had these parts; the measures themselves first."""
    contract = report.contract
    needed = {
        ENSEMBLES: True,
        KERNEL_TEST: report.data is not None,
        BOOTSTRAP: not contract.complete,
        SPLINES: not all(i.exact for i in contract.inputs),
        PROCRUSTES: report.layers is not None,
    }
    return [entry for entry, wanted in needed.items() if wanted]
