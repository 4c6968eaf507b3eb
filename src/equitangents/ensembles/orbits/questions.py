"""What all ensembles with a law in closed form have in common: the question how much they vary on orbits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from equitangents._types import Numbers, Times
from equitangents.actions import Action, as_action
from equitangents.actions.group_action import GroupAction
from equitangents.actions.named import ActionLike
from equitangents.ensembles.orbits.statistics import OrbitStatistics, orbit_statistics


class OrbitQuestions:
    """`orbit_statistics` of an ensemble that says what is measured."""

    def orbit_statistics(
        self,
        action: ActionLike,
        x: Numbers,
        members: Sequence[int] = (1, 10, 100),
        time: Times | None = None,
        *,
        y: Numbers | None = None,
        output_action: GroupAction | None = None,
        draws: int = 1000,
        seed: Any = 0,
        confidence: float = 0.95,
        over_inputs: str = "mean",
    ) -> OrbitStatistics:
        """What to expect of ensembles of M networks on the orbits of x, from GP(μ_t, Σ_t/M).

        Args:
            action: ρ_X on inputs, of any group, or its name; it need not be the augmentation.
            x: inputs (n, …).
            members: ensemble sizes M.
            time: one training time; None: the constructor's.
            y: targets (n,) or (n, outputs), for the error at x; for classifiers labels (n,), and the error is the
                share of wrong classes.
            output_action: ρ_Y on outputs (n, outputs), of the same group; outputs are then carried back by ρ_Y(g)⁻¹
                before the relative orbit std and the predicted class are taken. None: outputs should be invariant. Of
                fields it acts on (n, *positions, outputs), and the predicted class is one at each position.
            draws: how many ensembles are drawn.
            seed: a whole number or a jax.random key.
            confidence: of all intervals.
            over_inputs: "mean", "median" or "max": how an ensemble's values on all inputs are summarised. Relative
                measures of single inputs are large where outputs are near zero, and dominate a mean.

        Returns:
            relative orbit std, orbit same predictions (of the argmax, or of the sign of a single output), equivariance
            error and error, each with its distribution across ensembles. See `OrbitStatistics`.

        Source: arXiv 2403.03103, section 4: the mean of M networks has covariance Σ_t/M.
        """
        ensemble, x, truth = self._orbit_question(x, y)
        chosen: Action = as_action("action", action, np.shape(x))
        return orbit_statistics(
            ensemble,
            chosen,
            x,
            members,
            time=time,
            truth=truth,
            output_action=output_action,
            draws=draws,
            seed=seed,
            confidence=confidence,
            over_inputs=over_inputs,
        )

    @abstractmethod
    def _orbit_question(self, x: Any, y: Any) -> tuple[Any, Any, np.ndarray | None]:
        """(the ensemble whose outputs are measured, x, what is true or None), checked."""
