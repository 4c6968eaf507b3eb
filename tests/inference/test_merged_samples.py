"""Equal samples are merged with the sum of their weights."""

import numpy as np

from equitangents.inference.augmented import distinct


def test_merged_samples_weigh_as_much_as_their_copies_together():
    digests = [b"a", b"b", b"a", b"c", b"a"]
    first, weight = distinct(digests, weights=np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert first.tolist() == [0, 1, 3]
    assert weight.tolist() == [21.0, 2.0, 8.0]


def test_samples_are_equal_if_all_their_digests_are():
    first, copies = distinct([b"a", b"a", b"a"], [b"x", b"y", b"x"])
    assert first.tolist() == [0, 1]
    assert copies.tolist() == [2, 1]
