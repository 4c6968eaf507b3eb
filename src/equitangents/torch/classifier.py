"""Classification by an ensemble of PyTorch modules, one output a class."""

from __future__ import annotations

from equitangents._types import Numbers, Targets
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

    def fit(self, X: Numbers, y: Targets) -> EnsembleClassifier:
        """X as `Ensemble.fit` takes it; y (N,) labels of any type, at least two different ones.

        Of modules that end on positions, with logits (N, K, *positions), y is (N, *positions).
        """
        x, targets = self._data(X, y, reset=True)
        self._fit(x, targets)
        return self

    def extend(self, members: int, X: Numbers, y: Targets) -> EnsembleClassifier:
        """Train members up to `members` in all on the same data; those that are trained stay as they are."""
        self._check_fitted()
        x, targets = self._data(X, y, reset=False)
        self._extend(members, x, targets)
        return self
