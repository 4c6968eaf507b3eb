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
LIE_DERIVATIVE = """\
@inproceedings{gruver2023lie,
  title     = {The {L}ie Derivative for Measuring Learned Equivariance},
  author    = {Gruver, Nate and Finzi, Marc and Goldblum, Micah and Wilson, Andrew Gordon},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  note      = {arXiv:2210.02984}
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
CLASSIFIER_TEST = """\
@inproceedings{lopezpaz2017revisiting,
  title     = {Revisiting Classifier Two-Sample Tests},
  author    = {Lopez-Paz, David and Oquab, Maxime},
  booktitle = {International Conference on Learning Representations},
  year      = {2017},
  note      = {arXiv:1610.06545}
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
    test, contract = None if report.data is None else report.data.test, report.contract
    needed = {
        EMERGENT_EQUIVARIANCE: True,
        LIE_DERIVATIVE: bool(report.lie),
        KERNEL_TEST: test == "kernel",
        CLASSIFIER_TEST: test == "classifier",
        PIGEONHOLE_BOOTSTRAP: not contract.complete,
        SPLINES: not all(i.exact for i in contract.inputs),
        PROCRUSTES: report.layers is not None,
    }
    return [entry for entry, wanted in needed.items() if wanted]
