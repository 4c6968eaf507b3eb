"""How actions may be given to an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equitangents.actions.group_action import GroupAction
from equitangents.audit.contract.changes import Transform
from equitangents.audit.contract.labels import Labels
from equitangents.audit.contract.leaf_actions import Custom
from equitangents.audit.contract.places import Boxes, Keypoints
from equitangents.audit.contract.trees import Batch
from equitangents.audit.contract.unordered import Unordered
from equitangents.groups.representations import RepresentationLike

AuditedAction = str | GroupAction | Transform | Sequence[Any] | Mapping[str, Any]
"""The name of a group, an action, or a change; of several inputs a tuple or dictionary of actions and None."""

OutputAction = (
    str
    | GroupAction
    | RepresentationLike
    | Labels
    | Boxes
    | Keypoints
    | Unordered
    | Custom
    | Batch
    | Sequence[Any]
    | Mapping[str, Any]
    | None
)
"""What a group does to outputs: an action, a representation, a kind ("vectors"), a rule; of several outputs a tree."""
