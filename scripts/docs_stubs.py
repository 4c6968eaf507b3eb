"""An extension of griffe: in stubs a package that can be called is an attribute, and in the reference a package."""

from __future__ import annotations

from typing import Any

import griffe


class CallablePackages(griffe.Extension):
    """Leaves `equitangents.audit` to the package of that name, whose pages would not be found otherwise."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Forget the stub's attribute."""
        if attr.path == "equitangents.audit" and attr.parent is not None:
            del attr.parent.members[attr.name]
