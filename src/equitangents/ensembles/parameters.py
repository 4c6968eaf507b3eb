"""Parameters of all ensembles, as scikit-learn reads and sets them; what cannot be set is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.base import BaseEstimator

from equitangents import notebook
from equitangents.errors import InvalidArgumentError
from equitangents.keywords import CheckedKeywords, meant


class Estimator(CheckedKeywords, BaseEstimator):
    """scikit-learn's base with errors that say which parameter was meant, or how it is changed."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; returns self. Networks and actions are immutable: give new ones.

        Raises InvalidArgumentError, before anything is set, for names that are not parameters.
        """
        known = self.get_params(deep=False)
        for name in params:
            outer, nested, _ = name.partition("__")
            if outer not in known:
                names = sorted([*known, *getattr(self, "shorthands", ())])
                raise InvalidArgumentError(
                    f"{type(self).__name__} has no parameter {outer!r}{meant(outer, names)}; it has {', '.join(names)}"
                )
            value = params.get(outer, known[outer])
            if nested and not hasattr(value, "set_params"):
                raise InvalidArgumentError(
                    f"{name} cannot be set: {outer} is of type {type(value).__name__}, which has no parameters of its "
                    f"own to set; give another one, set_params({outer}=...)"
                )
        return super().set_params(**params)

    def _facts(self) -> list[tuple[str, object]]:
        """What a notebook shows of a fitted ensemble, above scikit-learn's own diagram."""
        return []

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram: Callable[[], str] = super()._repr_html_
        facts = self._facts()
        return diagram if not facts else lambda: notebook.table(type(self).__name__, facts) + diagram()
