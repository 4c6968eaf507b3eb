"""Classification by an ensemble of PyTorch modules, one output a class."""

from __future__ import annotations

from equitangents.ensembles.deep.predictions import Classification
from equitangents.ensembles.scores import FieldClassifierMixin
from equitangents.torch.base import TorchEnsemble


class EnsembleClassifier(FieldClassifierMixin, Classification, TorchEnsemble):
    """`equitangents.torch.Ensemble` on labels; parameters as there, but `loss` None is "cross_entropy".

    A module returns one logit a class. `label_action` acts on the targets (N, K), columns in the order of `classes_`:
    with "cross_entropy" it must permute classes.

    Attributes:
        classes_: the K distinct labels, sorted, of any type.
        params_, history_, trained_by_, reason_, …: as there.
    """

    _default_loss = "cross_entropy"
