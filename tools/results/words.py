"""What a page's first screen abbreviates, in words, for readers who do not know the work."""

from __future__ import annotations

import re

_WORDS = {
    r"FCN\b": "FCN has dense layers alone",
    r"LCN\b": "LCN has windows whose weights differ from position to position",
    r"VEC\b": "VEC is a convolutional network whose positions are each read out with weights of their own",
    r"GAP\b": "GAP is a convolutional network whose positions are averaged before the readout",
    r"LAP\d?\b": "LAP averages squares of positions",
    r"NN\b": "NN and NN+ are single trained networks, NN+ with a larger step and weight decay",
    r"NTK\b": "the NTK predicts what infinitely many infinitely wide networks do on average",
    r"NNGP\b": "the NNGP is the kernel of such networks whose last layer alone learns",
    r"GP\(μ, Σ": "GP(μ, Σ) is the law of one infinitely wide trained network, GP(μ, Σ/M) that of a mean of M",
    r"O\(3\)\^d": "O(3)^d turns the colour channels of every position by a rotation of its own",
    r"O\(3d\)": "O(3d) mixes all channels of all positions",
    r"P\(3d\)": "P(3d) permutes them",
    r"S-Dist\b": "S-Dist is how far the mean predictions of two algorithms are apart",
    r"Orbit same predictions\b": "orbit same predictions count the moved copies of an image that get its own class",
}

SETTINGS = {
    "pixels": "the size of images",
    "zero": "what fills the corners of turned images",
    "prepared": "how images are prepared",
}
"""Settings that two runs may be told apart by, in words."""


def in_words(text: str) -> str:
    """One sentence on every abbreviation in `text`; nothing where there is none.

    >>> in_words("With 64 channels VEC is ahead of the NTK")[:44]
    'In words: VEC is a convolutional network who'
    """
    said = [words for pattern, words in _WORDS.items() if re.search(rf"(?<![\w+]){pattern}", text)]
    return f"In words: {'; '.join(said)}." if said else ""


def brackets(sentence: str) -> str:
    """What stands in brackets behind numbers of a first sentence, all of which are drawn at one level.

    >>> brackets("It is 0.5 (0.4 to 0.6) of the source’s.")
    'In brackets: 95 % intervals.'
    """
    return "In brackets: 95 % intervals." if re.search(r"\d \(−?[\d.]+ to −?[\d.]+\)", sentence) else ""
