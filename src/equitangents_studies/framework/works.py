"""The works that the studies reproduce: claims name them as their source, pages cite them."""

from __future__ import annotations

import re


class Work(str):
    """The place of a work, "arXiv 2403.03103", read off its `bibtex`, with which it is cited.

    >>> EMERGENT_EQUIVARIANCE
    'arXiv 2403.03103'
    """

    bibtex: str

    def __new__(cls, bibtex: str) -> Work:  # noqa: D102
        (eprint,) = re.findall(r"^ *eprint *= {(.*)},$", bibtex, re.M)
        made = super().__new__(cls, f"arXiv {eprint}")
        made.bibtex = bibtex
        return made

    def __getnewargs__(self) -> tuple[str]:
        return (self.bibtex,)


EMERGENT_EQUIVARIANCE = Work("""\
@inproceedings{gerken2024emergent,
  title     = {Emergent Equivariance in Deep Ensembles},
  author    = {Gerken, Jan E. and Kessel, Pan},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {235},
  year      = {2024},
  publisher = {PMLR},
  eprint    = {2403.03103},
  archiveprefix = {arXiv}
}""")

AUGMENTED_POSTERIORS = Work("""\
@misc{dong2026equivariance,
  title         = {Equivariance and Augmentation for Bayesian Neural Networks},
  author        = {Dong, Miaowen and Flinth, Axel and Gerken, Jan E.},
  year          = {2026},
  eprint        = {2606.26273},
  archiveprefix = {arXiv}
}""")

BEYOND_THE_LIMIT = Work("""\
@article{nordenfors2024ensembles,
  title         = {Ensembles provably learn equivariance through data augmentation},
  author        = {Nordenfors, Oskar and Flinth, Axel},
  journal       = {arXiv preprint arXiv:2410.01452},
  year          = {2024},
  eprint        = {2410.01452},
  archiveprefix = {arXiv}
}""")

EXCHANGE_RATE = Work("""\
@article{adly2026exchange,
  title         = {Measuring the Symmetry--Data Exchange Rate},
  author        = {Adly, Ahmed M.},
  journal       = {arXiv preprint arXiv:2606.01090},
  year          = {2026},
  eprint        = {2606.01090},
  archiveprefix = {arXiv}
}""")

MEAN_FIELD = Work("""\
@inproceedings{maass2024symmetries,
  title     = {Symmetries in Overparametrized Neural Networks: A Mean-Field View},
  author    = {Maass, Javier and Fontbona, Joaqu{\\'i}n},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024},
  eprint    = {2405.19995},
  archiveprefix = {arXiv}
}""")

LAZY_TRAINING = Work("""\
@inproceedings{chizat2019lazy,
  title     = {On Lazy Training in Differentiable Programming},
  author    = {Chizat, L{\\'e}na{\\"i}c and Oyallon, Edouard and Bach, Francis},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019},
  eprint    = {1812.07956},
  archiveprefix = {arXiv}
}""")

EQUIVARIANT_KERNELS = Work("""\
@article{misof2024equivariant,
  title         = {Equivariant Neural Tangent Kernels},
  author        = {Misof, Philipp and Kessel, Pan and Gerken, Jan E.},
  journal       = {arXiv preprint arXiv:2406.06504},
  year          = {2024},
  eprint        = {2406.06504},
  archiveprefix = {arXiv}
}""")

TANGENT_KERNEL = Work("""\
@inproceedings{jacot2018neural,
  title     = {Neural Tangent Kernel: Convergence and Generalization in Neural Networks},
  author    = {Jacot, Arthur and Gabriel, Franck and Hongler, Cl{\\'e}ment},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {31},
  year      = {2018},
  eprint    = {1806.07572},
  archiveprefix = {arXiv}
}""")

WIDE_NETWORKS = Work("""\
@inproceedings{lee2019wide,
  title     = {Wide Neural Networks of Any Depth Evolve as Linear Models Under Gradient Descent},
  author    = {Lee, Jaehoon and Xiao, Lechao and Schoenholz, Samuel S. and Bahri, Yasaman and Novak, Roman and
               Sohl-Dickstein, Jascha and Pennington, Jeffrey},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019},
  eprint    = {1902.06720},
  archiveprefix = {arXiv}
}""")

SYNERGY_AND_SYMMETRY = Work("""\
@inproceedings{xiao2022synergy,
  title     = {Synergy and Symmetry in Deep Learning: Interactions between the Data, Model, and Inference Algorithm},
  author    = {Xiao, Lechao and Pennington, Jeffrey},
  booktitle = {Proceedings of the 39th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {162},
  pages     = {24347--24369},
  year      = {2022},
  publisher = {PMLR},
  eprint    = {2207.04612},
  archiveprefix = {arXiv}
}""")

PARTIAL_ORBITS = Work("""\
@article{perin2025ability,
  title         = {On the Ability of Deep Networks to Learn Symmetries from Data: A Neural Kernel Theory},
  author        = {Perin, Andrea and Deny, St\\'ephane},
  journal       = {Journal of Machine Learning Research},
  year          = {2025},
  eprint        = {2412.11521},
  archiveprefix = {arXiv}
}""")

OMNISCIENT_RISK = Work("""\
@article{simon2023eigenlearning,
  title         = {The Eigenlearning Framework: A Conservation Law Perspective on Kernel Ridge Regression and Wide
                   Neural Networks},
  author        = {Simon, James B. and Dickens, Madeline and Karkada, Dhruva and DeWeese, Michael R.},
  journal       = {Transactions on Machine Learning Research},
  year          = {2023},
  eprint        = {2110.03922},
  archiveprefix = {arXiv}
}""")
