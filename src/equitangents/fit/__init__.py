"""The best prediction from some hundred labelled images or vectors, chosen by left-out samples, and its score."""

from equitangents.fit.choosing import LEAST, MOST, auto
from equitangents.fit.result import Choice, Grown, Scored, Tried, Turned
from equitangents.fit.searching import Step

__all__ = ["LEAST", "MOST", "Choice", "Grown", "Scored", "Step", "Tried", "Turned", "auto"]
