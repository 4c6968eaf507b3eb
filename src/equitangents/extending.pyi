"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""
# ruff: noqa: I001

# types in signatures, and what is asked of users' objects
from ._aliases import FiniteNetwork
from ._types import ArrayLike, DType, Elements, FileName, Network, Numbers, Params, Targets

# arguments
from .actions.compact import check_finite_group
from .actions.kinds import ActionLike
from .ensembles.estimator import check_network
from .errors import require
from .keywords import unknown
from .statistics.estimate import check_confidence
from .validation import (
    check_array,
    check_choice,
    check_number,
    check_same_length,
    check_shape,
    check_whole,
    is_whole,
)

# files that are there whole or not at all, and what they claim to hold
from .archives import Archive, write_archive
from .foreign_files import read_named
from .foreign_files import UNREADABLE, read_json
from .files import LEFTOVER, alone, file_bytes, may_write, open_regular, real, whole_file
from .formatting import quoted, unquoted

# what is said
from . import formatting
from .cli import options

# layers of one's own
from .nn.group_conv import box_offsets
from .nn.layer import Weights

# how it is computed: in which precision, in how much memory, by whom
from . import precision
from .memory import check_fits, machine_memory, process_memory
from .precision import standard_normal

# training of many members: what `DeepEnsemble` does not offer yet is built from it (a rate a member, stopping alone)
from .ensembles.training.network_job import Workers, member_outputs, planned_job

__all__ = [
    "LEFTOVER",
    "UNREADABLE",
    "ActionLike",
    "Archive",
    "ArrayLike",
    "DType",
    "Elements",
    "FileName",
    "FiniteNetwork",
    "Network",
    "Numbers",
    "Params",
    "Targets",
    "Weights",
    "Workers",
    "alone",
    "box_offsets",
    "check_array",
    "check_choice",
    "check_confidence",
    "check_finite_group",
    "check_fits",
    "check_network",
    "check_number",
    "check_same_length",
    "check_shape",
    "check_whole",
    "file_bytes",
    "formatting",
    "is_whole",
    "machine_memory",
    "may_write",
    "member_outputs",
    "open_regular",
    "options",
    "planned_job",
    "precision",
    "process_memory",
    "quoted",
    "read_json",
    "read_named",
    "real",
    "require",
    "standard_normal",
    "unknown",
    "unquoted",
    "whole_file",
    "write_archive",
]
