"""Choice of the best classifier for a few hundred labelled images or vectors, by left-out samples, and its score."""

from equitangents.fit.choosing import MAX_SAMPLES, MIN_SAMPLES, auto
from equitangents.fit.result import CandidateScore, Choice, LearningCurvePoint, ModelScore, RotationScore
from equitangents.fit.searching import Step

__all__ = [
    "MAX_SAMPLES", "MIN_SAMPLES", "CandidateScore", "Choice", "LearningCurvePoint", "ModelScore", "RotationScore",
    "Step", "auto",
]  # fmt: skip
