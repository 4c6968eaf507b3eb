"""BibTeX of the methods that an audit can use."""

from __future__ import annotations

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


def used(*, lie: bool, data_test: str | None, sampled: bool, resampled: bool, layers: bool) -> list[str]:
    """What to cite for an audit that had these parts; the measures themselves first."""
    tests = {"kernel": [KERNEL_TEST], "classifier": [CLASSIFIER_TEST], None: []}
    return [
        EMERGENT_EQUIVARIANCE,
        *([LIE_DERIVATIVE] if lie else []),
        *tests[data_test],
        *([PIGEONHOLE_BOOTSTRAP] if sampled else []),
        *([SPLINES] if resampled else []),
        *([PROCRUSTES] if layers else []),
    ]
