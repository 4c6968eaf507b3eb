"""What an interval is asked for: its confidence, how many resamples, and the seed that draws them."""

from __future__ import annotations

from equitangents.validation import check_number, check_whole


def check_confidence(confidence: object) -> None:
    """Raise unless this is a share of the truths that intervals can hold, between 0 and 1."""
    check_number("confidence", confidence, "a number between 0 and 1", lambda c: 0 < c < 1)


def check_resampling(confidence: object, resamples: object, seed: object) -> None:
    """Raise unless an interval of this confidence can be found from so many resamples, drawn by this seed."""
    check_confidence(confidence)
    check_whole("resamples", resamples, 1)
    check_whole("seed", seed, 0)
