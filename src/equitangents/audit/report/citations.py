"""BibTeX of the methods that an audit can use."""

from __future__ import annotations

from equitangents.audit.report.findings import Findings

EMERGENT_EQUIVARIANCE = """\
@inproceedings{gerken2024emergent,
  title     = {Emergent Equivariance in Deep Ensembles},
  author    = {Gerken, Jan E. and Kessel, Pan},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  year      = {2024},
  note      = {arXiv:2403.03103}
}"""
KERNEL_TEST = """\
@article{gretton2012kernel,
  title   = {A Kernel Two-Sample Test},
  author  = {Gretton, Arthur and Borgwardt, Karsten M. and Rasch, Malte J. and Sch{\\"o}lkopf, Bernhard
             and Smola, Alexander},
  journal = {Journal of Machine Learning Research},
  volume  = {13},
  pages   = {723--773},
  year    = {2012}
}"""
PIGEONHOLE_BOOTSTRAP = """\
@article{owen2007pigeonhole,
  title   = {The Pigeonhole Bootstrap},
  author  = {Owen, Art B.},
  journal = {The Annals of Applied Statistics},
  volume  = {1},
  number  = {2},
  pages   = {386--411},
  year    = {2007}
}"""
SPLINES = """\
@article{unser1999splines,
  title   = {Splines: A Perfect Fit for Signal and Image Processing},
  author  = {Unser, Michael},
  journal = {IEEE Signal Processing Magazine},
  volume  = {16},
  number  = {6},
  pages   = {22--38},
  year    = {1999}
}"""
PROCRUSTES = """\
@article{schonemann1966generalized,
  title   = {A Generalized Solution of the Orthogonal {P}rocrustes Problem},
  author  = {Sch{\\"o}nemann, Peter H.},
  journal = {Psychometrika},
  volume  = {31},
  number  = {1},
  pages   = {1--10},
  year    = {1966}
}"""


def used(report: Findings) -> list[str]:
    """What to cite for an audit that had these parts; the measures themselves first."""
    contract = report.contract
    needed = {
        EMERGENT_EQUIVARIANCE: True,
        KERNEL_TEST: report.data is not None,
        PIGEONHOLE_BOOTSTRAP: not contract.complete,
        SPLINES: not all(i.exact for i in contract.inputs),
        PROCRUSTES: report.layers is not None,
    }
    return [entry for entry, wanted in needed.items() if wanted]
