"""What leaving one training sample out says of an ensemble: predictions, and how far they are from the targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents import notebook


@dataclass(frozen=True)
class LeaveOneOut:
    """Each sample predicted by the ensemble trained on the others; with augmentation its copies are left out, too.

    predictions: (N,) or (N, outputs), of fields (N, *positions, outputs), as targets are given. residuals: targets −
    predictions. time: the training time. predictor: which process predicts.
    """

    predictions: Float[np.ndarray, "n ..."]
    residuals: Float[np.ndarray, "n ..."]
    time: float
    predictor: str

    @property
    def squared_errors(self) -> Float[np.ndarray, " n"]:
        """Each sample's squared error, a mean over outputs, of fields over positions, too."""
        return (self.residuals.reshape(len(self.residuals), -1) ** 2).mean(axis=1)

    @property
    def mean_squared_error(self) -> float:
        """Mean of squared residuals over samples and outputs."""
        return float(self.squared_errors.mean())

    def __repr__(self) -> str:
        return f"<LeaveOneOut of {len(self.residuals)} samples: mean squared error {self.mean_squared_error:.4g}>"

    def _repr_html_(self) -> str:
        return notebook.table("Leave-one-out", self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        return [
            ("samples", len(self.residuals)),
            ("mean squared error", f"{self.mean_squared_error:.4g}"),
            ("predictor", self.predictor),
        ]


@dataclass(frozen=True)
class LabelsLeftOut:
    """Each sample's label predicted by the classifier trained on the others, with as many classes as all have.

    predictions, labels: (N,), labels as the classifier was given them. outputs: the K outputs behind the predictions.
    """

    predictions: np.ndarray
    labels: np.ndarray
    outputs: LeaveOneOut

    @property
    def hits(self) -> np.ndarray:
        """Whether each sample's label is predicted, (N,)."""
        return np.asarray(self.predictions == self.labels)

    @property
    def accuracy(self) -> float:
        """The share of samples whose label is predicted."""
        return float(self.hits.mean())

    @property
    def residuals(self) -> Float[np.ndarray, "n classes"]:
        """Targets − outputs, targets being one-hot minus 1/K."""
        return self.outputs.residuals

    @property
    def mean_squared_error(self) -> float:
        """The mean squared error of the outputs behind the labels, over samples and outputs."""
        return self.outputs.mean_squared_error

    @property
    def time(self) -> float:
        """After which training time the labels are predicted."""
        return self.outputs.time

    @property
    def predictor(self) -> str:
        """Which process predicts the outputs behind the labels."""
        return self.outputs.predictor

    def __repr__(self) -> str:
        return f"<LabelsLeftOut of {len(self.labels)} samples: accuracy {self.accuracy:.4g}>"

    def _repr_html_(self) -> str:
        facts = self.outputs._facts()
        return notebook.table("Leave-one-out", [facts[0], ("accuracy", f"{self.accuracy:.4g}"), *facts[1:]])


def predictor_name(kernel: str, time: float, ridge: float, augmented: bool) -> str:
    """Which process predicts, in words.

    >>> predictor_name("nngp", float("inf"), 0.1, augmented=False)
    'posterior mean of the NNGP with noise (ridge 0.1)'
    >>> predictor_name("ntk", 5.0, 0.0, augmented=True)
    'mean of infinitely wide networks (NTK) at time 5, on all augmented copies'
    """
    if kernel == "nngp" and np.isinf(time):
        name = "posterior mean of the NNGP " + (f"with noise (ridge {ridge:g})" if ridge else "without noise")
    else:
        trained = "NTK" if kernel == "ntk" else "last layer alone trained, NNGP kernel"
        name = f"mean of infinitely wide networks ({trained}) at time {time:g}" + (
            f", ridge {ridge:g}" if ridge else ""
        )
    return name + (", on all augmented copies" if augmented else "")
