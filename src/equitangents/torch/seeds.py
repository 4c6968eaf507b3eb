"""Where the random numbers of a member come from: from (seed, member) alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Seeds(NamedTuple):
    """Seeds of one member, whole numbers.

    init:  of torch.manual_seed before the factory is called
    order: of the torch.Generator that draws the order of the data, torch.randperm(N) an epoch
    noise: of torch.manual_seed before its training, for dropout and the like
    """

    init: int
    order: int
    noise: int


def member_seeds(seed: int, member: int) -> Seeds:
    """The seeds of one member of an ensemble.

    >>> member_seeds(0, 1) == member_seeds(0, 1), member_seeds(0, 1) == member_seeds(0, 2)
    (True, False)
    """
    drawn = np.random.SeedSequence(entropy=seed, spawn_key=(member,)).generate_state(3, np.uint64)
    return Seeds(*(int(s) >> 1 for s in drawn))
