"""Studies: each reproduces the claims of a paper with one command, and says which of them hold."""

from equitangents.studies.catalogue import StudyInfo, add, registry
from equitangents.studies.framework.runner import Interrupted, StudyResult, run

__all__ = ["Interrupted", "StudyInfo", "StudyResult", "add", "registry", "run"]
