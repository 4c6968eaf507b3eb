"""Networks of other libraries as members of ensembles: one file a library, imported where such a network is given."""

from equitangents.ensembles.networks.choose import as_network
from equitangents.ensembles.networks.foreign import ForeignNetwork, Variables, is_batchwise

__all__ = ["ForeignNetwork", "Variables", "as_network", "is_batchwise"]
