"""The 8×8 handwritten digits that ship with scikit-learn: 1,797 images, no download."""

from __future__ import annotations

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents_studies.data.dataset import Dataset

_CITATION = (
    "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (1998), "
    "as shipped with scikit-learn."
)


def digits(test_fraction: float = 0.2) -> Dataset:
    """The digits, scaled from 0..16 to [0, 1], split class by class; the split never changes.

    Shapes: images `(N, 8, 8, 1)`. Raises InvalidArgumentError unless 0 < test_fraction < 1.

    Example:
        >>> digits().train_x.shape
        (1438, 8, 8, 1)
    """
    if not 0 < test_fraction < 1:
        raise InvalidArgumentError(f"test_fraction was {test_fraction}; it must lie between 0 and 1")
    from sklearn.datasets import load_digits

    source = load_digits()
    images = (source.images[..., None] / 16.0).astype(np.float32)
    labels = source.target.astype(np.int64)
    rng = np.random.default_rng(0)
    test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        rows = rng.permutation(np.flatnonzero(labels == label))
        test[rows[: round(test_fraction * len(rows))]] = True
    order = rng.permutation(len(labels))
    train_rows, test_rows = order[~test[order]], order[test[order]]
    return Dataset(
        name="digits",
        train_x=images[train_rows],
        train_y=labels[train_rows],
        test_x=images[test_rows],
        test_y=labels[test_rows],
        class_names=tuple(str(d) for d in range(10)),
        citation=_CITATION,
    )
