"""Names that rooms no longer name in public, and rooms that the library no longer does: for one version they are found
there still, with a warning.

What a function returns has its class described where the room is described (docs/reference); whoever needs one by name
imports it from the file that it lives in.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType

from equitangents.beside import PACKAGE

FORMER = {  # by room: in which file of the library they live, or of the package beside it
    "actions": {
        "actions.action": "RoundTrip",
        "actions.continuous": "check_finite_group ContinuousRotations",
        "actions.subset": "ActionSubset",
    },
    "audit": {
        "audit.measure.irreps": "IrrepsByLayer",
        "audit.potentials.report": "AtomsReport",
    },
    "ensembles": {
        "ensembles.infinite.leave_one_out": "LabelsLeftOut LeaveOneOut",
        "ensembles.infinite.refining": "Refined",
        "ensembles.infinite.tuning": "Candidate Tuning",
        "ensembles.orbits.law": "OrbitLaw OrbitMoments",
        "ensembles.orbits.statistics": "OrbitStatistic OrbitStatistics",
        "ensembles.training.run": "TrainingState",
        "ensembles.training.variations": "TangentPrior",
    },
    "extending": {
        "ensembles.training.batches": "Batches",
        "ensembles.training.network_job": (
            "evaluate member_outputs NetworkChunk NetworkJob outputs planned_job rows_at_once"
        ),
        "ensembles.training.plan": "make_plan Plan",
        "ensembles.training.recipe": "init_members member_shapes Own Recipe run_epochs",
        "ensembles.training.variations": "PLAIN",
        "formatting": "duration exact_duration foreseen",
        "locks": "held HeldError",
        "nn.patches": "patches",
        "nn.signal": "Grid Signal",
        "scale.executors": "check_spread opened spread Tasks workers_of",
    },
    "functional": {
        "functional.empirical": "ntk_vector_product",
    },
    "groups": {
        "groups.irreps": "Irrep",
        "groups.plane_isometries": "PlaneIsometries",
        "groups.plane_rotations": "PlaneRotations",
        "groups.representations": "Representation",
        "groups.rotation_group": "RotationGroup",
        "groups.sampled_permutations": "Permutations",
        "groups.subgroup": "Subgroup",
        "groups.symmetry_group": "CompactGroup CompactIrrep",
        "groups.table_group": "TableGroup",
        "groups.translation_group": "TranslationGroup",
    },
    "inference": {
        "inference.augmented": "augment_targets distinct kinds orbit_digests row_digests",
        "inference.data_orbits": "DataOrbits find_orbits",
        "inference.draws": "as_key check_sample sample_gaussian sample_on_orbits",
        "inference.dynamics": "as_times Descent DYNAMICS Dynamics HeavyBall",
        "inference.gaussian": "Projection",
        "inference.group_fourier": "trivial_irrep",
        "inference.irrep_process": "IrrepProcess IrrepProjection",
        "inference.probabilities": "argmax_probabilities",
        "inference.spectrum": "Spectrum dense_solve_bytes relative_resolution",
        "memory": "check_memory default_memory_limit",
    },
    "kernels": {
        "kernels.cost.forecast": "KernelCost",
        "kernels.dispatch": "compute compute_diagonal kernel_cost",
        "kernels.empirical": "empirical_matrix",
        "kernels.engines.select": "engine_name",
        "kernels.equivariant": "EquivariantAverage",
        "kernels.finite_width": "FiniteWidth",
        "kernels.monte_carlo": "MonteCarlo",
        "kernels.orbit": "OrbitAverage",
        "kernels.program": "Program",
        "kernels.random_features": "RandomFeatures",
        "kernels.result": "KernelField",
    },
    "metrics": {
        "metrics.equivariance": "EquivarianceMeasure Witness",
        "metrics.measure": "Measure bootstrap_interval",
    },
    "molecules": {
        "molecules.joint": "joint_kernels JointKernels",
        "molecules.kernel": "kernels_diagonal signals_for",
        "molecules.regressor": "Prediction",
        "molecules.resolution": "kernel_for_forces kernel_for_tensors",
        "molecules.signals": "Neighbourhoods",
        "molecules.smooth_kernel": "SmoothKernel",
        "molecules.tensors": "TensorPrediction",
    },
    "nn": {
        "nn.zonal_window": "ZonalWindow",
    },
    "planning": {
        "planning.alternatives": "Alternative",
        "planning.pilot": "Pilot PilotTraining Ratio",
        "planning.plan": "Plan",
    },
    "report": {
        "report.render": "outside_resources",
        f"{PACKAGE}.framework.report": "Page",
        f"{PACKAGE}.verdict": (
            "Decision EXACT FAILS HOLDS IN_ERRORS ORIGINS Origin P_VALUE plain_number SINGLE UNDECIDED Verdict"
        ),
    },
    "scale": {
        "scale.cost": "GramCost",
        "scale.verification": "Verification",
    },
    "solvers": {
        "solvers.choosing": "Plan SOLVERS",
        "solvers.eigh": "Eigh",
        "solvers.matrices": "KernelMatrix SymmetricMatrix",
        "solvers.method": "Method",
        "solvers.solution": "Report Solution",
        "solvers.solving": "Solver",
        "solvers.system": "System",
    },
    "sphere": {
        "sphere.grids": "SphereGrid",
        "sphere.transforms": "Projection",
        "sphere.zonal": "legendre_coefficients",
    },
    "statistics": {
        "statistics.paired": "paired_mean",
    },
    "stax": {
        "stax.kernel": "Kernel",
        "stax.triples": "StaxLayer",
    },
    "steerable": {
        "steerable.angular": "angular_kernels AngularKernel",
        "steerable.harmonics": "direction_harmonics rings Samples samples",
        "steerable.irrep": "Irrep",
    },
    "torch": {
        "torch.modules": "Seeds",
    },
}

FORMER_ROOMS = ("functional", "planning")  # whose names are the library's own: `equitangents.linearize`


def former_room(name: str) -> ModuleType | None:
    """What `equitangents.<name>` was, with a DeprecationWarning; None where it is no former room."""
    if name not in FORMER_ROOMS:
        return None
    library = __name__.partition(".")[0]
    warnings.warn(
        f"the names of {library}.{name} are {library}'s own now; the old name goes with the next version",
        DeprecationWarning,
        stacklevel=3,
    )
    return importlib.import_module(f"{library}.{name}")


def former_names(
    package: str, otherwise: Callable[[str], object] | None = None, places: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """The function `__getattr__` of a room: its former names, with a DeprecationWarning that says where each is now.

    `otherwise` finds other names, where a room imports its own when they are first used; else they are an
    AttributeError. `places`: those of a room of another package, written as in `FORMER`.
    """
    homes = former_homes(package, places)

    def getattr_of_room(name: str) -> object:
        if name not in homes:
            if otherwise is not None:
                return otherwise(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(
            f"{package}.{name} is now {homes[name]}.{name}; the old name goes with the next version",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(homes[name]), name)

    return getattr_of_room


def former_homes(package: str, places: Mapping[str, str] | None = None) -> dict[str, str]:
    """Which module each former name of a room lives in."""
    library, _, room = package.partition(".")
    places = FORMER.get(room, {}) if places is None else places
    homes = {place: place if place.startswith(PACKAGE) else f"{library}.{place}" for place in places}
    return {name: homes[place] for place, names in places.items() for name in names.split()}
