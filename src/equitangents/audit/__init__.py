"""How equivariant is a trained model, where does it break, and what would mend it?

`equitangents.audit` is this package and, called, the function `audit.run.audit`.
"""

import sys
from types import ModuleType

from equitangents.audit.contract.changes import Transform
from equitangents.audit.contract.kinds import Boxes, Custom, Keypoints, Labels
from equitangents.audit.contract.trees import Batch, Shared
from equitangents.audit.contract.unordered import Unordered
from equitangents.audit.potentials.run import atoms
from equitangents.audit.report.result import AuditReport
from equitangents.audit.run import audit

__all__ = [
    "AuditReport",
    "Batch",
    "Boxes",
    "Custom",
    "Keypoints",
    "Labels",
    "Shared",
    "Transform",
    "Unordered",
    "atoms",
    "audit",
]


class AuditPackage(ModuleType):
    """Makes `et.audit(f, action, x)` work whichever way the package was imported first, and tells type checkers so."""

    __call__ = staticmethod(audit)
    AuditReport = AuditReport
    Batch = Batch
    Boxes = Boxes
    Custom = Custom
    Keypoints = Keypoints
    Labels = Labels
    Shared = Shared
    Transform = Transform
    Unordered = Unordered
    atoms = staticmethod(atoms)
    audit = staticmethod(audit)


sys.modules[__name__].__class__ = AuditPackage
