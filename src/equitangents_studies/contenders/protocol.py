"""What a contender is: any object with `fit` and `predict`; what it costs it may say."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Num


@runtime_checkable
class Contender(Protocol):
    """A classifier of images. It may have `parameters`, and `multiplications` of one prediction: numbers or None."""

    def fit(self, x: Float[np.ndarray, "n height width channels"], y: Int[np.ndarray, " n"]) -> Any:
        """Learn from images, each of mean 0 and standard deviation 1, and labels from 0 to K − 1."""

    def predict(self, x: Float[np.ndarray, "n height width channels"]) -> Num[np.ndarray, "n ..."]:
        """Scores (N, K), the largest of which decides, or labels (N,)."""


class CountedContender(Contender, Protocol):
    """A contender that says what it costs."""

    @property
    def parameters(self) -> int:
        """How many numbers are learnt."""

    @property
    def multiplications(self) -> int:
        """How many multiplications one prediction takes."""
