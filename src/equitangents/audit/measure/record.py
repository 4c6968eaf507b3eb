"""The outputs of the pass over the data, in the order in which it asked for them.

So a pass that was stopped can be measured as far as it came, without the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from equitangents.audit.adapters.model import Answer

_NUMBERS = 2**25  # at most that many are kept, 256 MB; a pass that is stopped later is measured as far as they go


@dataclass(eq=False)
class Record:
    """Answers that are kept (`recording`), or given again one after another (`replaying`)."""

    answers: list[Answer] = field(default_factory=list)
    recording: bool = False
    replaying: bool = False
    _numbers: int = 0
    _at: int = 0

    def keep(self, y: Answer) -> None:
        """Remember one more answer, while there is room."""
        self._numbers += sum(a.size for a in y.leaves)
        if self._numbers <= _NUMBERS:
            self.answers.append(y)

    def next(self, n: int) -> Answer:
        """The answer to the question that was asked next, of n inputs."""
        y = self.answers[self._at]
        self._at += 1
        assert len(y.leaves[0]) == n
        return y

    def of_row(self, step: int, elements: int, row: int, element: int | None) -> list[np.ndarray] | None:
        """Outputs (1, …) for one input, of batches of `step`, moved by an element or not; None if not kept."""
        batch, place = divmod(row, step)
        index = batch * (elements + 1) + (0 if element is None else element + 1)
        if index >= len(self.answers):
            return None
        return [y[place : place + 1] for y in self.answers[index].leaves]
