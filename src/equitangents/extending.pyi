"""What is public, for type checkers, and for `extending.py`, which imports it from here when first used."""
# ruff: noqa: I001

# types in signatures, and what is asked of users' objects
from equitangents._aliases import FiniteNetwork
from equitangents._types import ArrayLike, DType, Elements, FileName, Network, Numbers, Params, Targets

# arguments
from equitangents.actions.compact import check_finite_group
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.estimator import check_network
from equitangents.extras import check_installed, require
from equitangents.keywords import unknown
from equitangents.statistics.estimate import check_confidence
from equitangents.validation import (
    check_array,
    check_choice,
    check_number,
    check_same_length,
    check_shape,
    check_whole,
    is_whole,
)

# files that are there whole or not at all, and what they claim to hold
from equitangents.archives import Archive, write_archive
from equitangents.foreign_files import read_named
from equitangents.foreign_files import UNREADABLE, check_arrays, read_json
from equitangents.files import LEFTOVER, alone, file_bytes, may_write, open_regular, real, whole_file
from equitangents.formatting import quoted, unquoted

# what is said
from equitangents import formatting
from equitangents.cli.values import one_of, there, writable

# layers of one's own
from equitangents.nn.group_conv import box_offsets
from equitangents.nn.layer import Weights

# how it is computed: in which precision, in how much memory, by whom
from equitangents import precision
from equitangents.memory import check_fits, machine_memory, process_memory
from equitangents.normals import standard_normal

# training of many members: what `DeepEnsemble` does not offer yet is built from it (a rate a member, stopping alone)
from equitangents.ensembles.training import network_job
from equitangents.ensembles.training.plan import Workers

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
    "check_arrays",
    "check_choice",
    "check_confidence",
    "check_finite_group",
    "check_fits",
    "check_installed",
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
    "network_job",
    "one_of",
    "open_regular",
    "precision",
    "process_memory",
    "quoted",
    "read_json",
    "read_named",
    "real",
    "require",
    "standard_normal",
    "there",
    "unknown",
    "unquoted",
    "whole_file",
    "writable",
    "write_archive",
]
