"""Learning systems: data, a model and an inference algorithm, each with symmetries, and what a mismatch costs.

what moves data      data_groups, transformations, generated
networks             architectures, coupling, embeddings
algorithms           descent, tangent_spectrum, inferences, system
their symmetries     symmetry_tests, two_sample, distances
kernels              grams, kernel_spectrum, partial_orbits
curves of any model  curve_data, curves, predictions, broken_lines, power_laws, factors, exchange
which architecture   architecture_comparison
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
