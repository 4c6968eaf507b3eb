"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs."""

import lazy_loader

from equitangents_studies.former_names import with_former

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

FORMER = {
    "architectures": "Reparametrised",
    "compared": "ArchitectureComparison",
    "data_groups": "DataGroup",
    "distances": "SDist",
    "embeddings": "Embedded",
    "exchange": "ExchangeRate GroupExchange",
    "factors": "Factor",
    "generated": "Textures",
    "kernel_spectrum": "Component KernelSpectrum",
    "patch_networks": "PatchNetwork",
    "power_laws": "Growth",
    "predictions": "PoolSpectrum pool_spectrum",
    "symmetry_tests": "SymmetryResult",
    "system": "FittedSystem",
    "tangent_spectrum": "Eigenvalue largest_eigenvalue",
    "theorem_tables": "SymmetryRow SymmetryTable",
    "transformations": "Path",
    "two_sample": "TwoSample energy_test",
}
__getattr__ = with_former(__name__, _public, FORMER)
