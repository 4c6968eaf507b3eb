"""BibTeX of the works that the studies reproduce."""

from __future__ import annotations

EMERGENT_EQUIVARIANCE = """\
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
}"""

EQUIVARIANT_KERNELS = """\
@article{misof2024equivariant,
  title         = {Equivariant Neural Tangent Kernels},
  author        = {Misof, Philipp and Kessel, Pan and Gerken, Jan E.},
  journal       = {arXiv preprint arXiv:2406.06504},
  year          = {2024},
  eprint        = {2406.06504},
  archiveprefix = {arXiv}
}"""

SYNERGY_AND_SYMMETRY = """\
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
}"""
