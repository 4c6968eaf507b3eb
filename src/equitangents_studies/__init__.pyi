"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .framework.catalogue import StudyInfo, add, registry
from .framework.runner import Interrupted, StudyResult, run

__all__ = ["Interrupted", "StudyInfo", "StudyResult", "add", "registry", "run"]
