"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""
# ruff: noqa: I001

# types
from ._aliases import FiniteNetwork
from ._types import ArrayLike, DType, Elements, Network, Numbers, Params, Targets

# arguments
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
)

# files
from .ensembles.archives import Archive, write_archive
from .foreign_files import UNREADABLE, read_json, read_named
from .files import LEFTOVER, atomic_file, file_bytes, locked, open_regular, real
from .formatting import duration, quoted, unquoted

# options of commands
from .cli import options

# layers
from .nn.group_conv import box_offsets
from .nn.layer import Weights

# precision and memory
from . import precision
from .memory import check_fits, machine_memory, process_memory
from .precision import standard_normal

# training of many members, for what `DeepEnsemble` lacks (a learning rate or a stopping time for each member)
from .ensembles.training.network_job import Workers, member_outputs, planned_job

__all__ = [
    "LEFTOVER",
    "UNREADABLE",
    "Archive",
    "ArrayLike",
    "DType",
    "Elements",
    "FiniteNetwork",
    "Network",
    "Numbers",
    "Params",
    "Targets",
    "Weights",
    "Workers",
    "atomic_file",
    "box_offsets",
    "check_array",
    "check_choice",
    "check_confidence",
    "check_fits",
    "check_network",
    "check_number",
    "check_same_length",
    "check_shape",
    "check_whole",
    "duration",
    "file_bytes",
    "locked",
    "machine_memory",
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
    "write_archive",
]
