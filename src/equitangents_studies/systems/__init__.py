"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs.

what moves data      data_groups, transformations, generated
networks             architectures, patch_networks, coupling, embeddings
algorithms           descent, tangent_spectrum, inferences, system
their symmetries     symmetry_tests, two_sample, theorem_tables, distances
kernels              grams, kernel_spectrum, partial_orbits
curves of any model  curve_data, curves, predictions, broken_lines, power_laws, factors, exchange
which architecture   architecture_comparison, compared, comparison_drawing
"""

import lazy_loader

from equitangents.extending import former_names

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

FORMER = {
    "systems.architectures": "Reparametrised",
    "systems.compared": "ArchitectureComparison",
    "systems.coupling": "coupled",
    "systems.curves": "LearningCurve",
    "systems.data_groups": "data_group DataGroup expected_symmetry",
    "systems.descent": "GradientInference",
    "systems.distances": "SDist",
    "systems.embeddings": "Embedded",
    "systems.exchange": "ExchangeRate GroupExchange scrambled",
    "systems.factors": "Factor",
    "systems.generated": "Textures",
    "systems.inferences": "KernelInference",
    "systems.kernel_spectrum": "Component KernelSpectrum",
    "systems.partial_orbits": "PartialOrbits",
    "systems.patch_networks": "PatchNetwork",
    "systems.power_laws": "Growth PowerLaw",
    "systems.predictions": "PoolSpectrum pool_spectrum",
    "systems.symmetry_tests": "false_alarm_rate SymmetryResult",
    "systems.system": "FittedSystem",
    "systems.tangent_spectrum": "Eigenvalue largest_eigenvalue",
    "systems.theorem_tables": "SymmetryRow SymmetryTable",
    "systems.transformations": "Path Transformation",
    "systems.two_sample": "TwoSample energy_test",
}
__getattr__ = former_names(__name__, _public, FORMER)
