"""Studies: each reproduces the claims of a paper with one command, and says which of them hold."""

from equitangents.studies.catalogue import StudyInfo, registry
from equitangents.studies.framework.runner import StudyResult, run

__all__ = ["StudyInfo", "StudyResult", "registry", "run"]
