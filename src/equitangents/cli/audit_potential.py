"""`equitangents audit-potential`: whether an interatomic potential respects symmetries and conserves energy."""

from __future__ import annotations

from typing import Any

from equitangents.cli.audit import LIMITS, REPORTS, finish
from equitangents.cli.common import argument, command, option, stages
from equitangents.cli.completion import irreps_by_name, local_file, numbers, positive


@command(
    (
        "Potential",
        {
            "structures": argument(str, "Structures that ASE reads: .xyz, .cif, .traj, …", ..., callback=local_file),
            "calculator": option(str, "package.module:object, an ASE calculator, its class or a function.", ...),
            "features": option(
                str,
                "Further results, one row an atom, and their irreps: node_feats=8x0e+4x1o.",
                callback=irreps_by_name,
            ),
        },
    ),
    (
        "What to measure",
        {
            "tests": option(
                str, "Some tests, with commas: rotation, permutation, conservation, dynamics, smoothness, …"
            ),
            "elements": option(int, "Random moves of every structure.", 8, callback=positive),
            "limit": option(int, "Use this many structures, drawn at random.", callback=positive),
            "time_step": option(float, "Femtoseconds of a step of the short run: 0.25."),
            "seed": option(int, "Seed of everything random.", 0),
        },
    ),
    (
        "Verdict",
        {
            "tolerances": option(
                str,
                "Errors that count as small: forces=1,energy=0.1 (meV/Å, meV/atom).",
                callback=numbers("NAME=NUMBER,…", single=False),
            ),
            "fail_above": option(
                str,
                "Exit with status 3 unless relative errors are at most this: 0.05 or 5%, or forces=5%,…",
                callback=LIMITS,
            ),
        },
    ),
    ("Report", REPORTS),
)
def audit_potential(o: Any) -> None:
    """Test an interatomic potential: symmetries, forces as a gradient, conserved energy, smoothness.

    equitangents audit-potential water.xyz --calculator mine:potential --html potential.html

    equitangents audit-potential crystals.xyz --calculator mine:potential --tests rotation,dynamics --time-step 0.25
    """
    from equitangents.model_files import check_name

    check_name(o.calculator, "calculator")
    with stages() as stage:
        stage("importing JAX and ASE")
        from equitangents.audit.adapters.choose import imported
        from equitangents.audit.potentials.report import below
        from equitangents.audit.potentials.run import atoms
        from equitangents.audit.potentials.structures import read_structures
        from equitangents.extras import require

        require("ase", "atoms", "the audit of potentials")
        stage(f"reading {o.structures}")
        given = read_structures(o.structures, o.limit, o.seed)
        stage(f"loading {o.calculator}")
        potential = imported(o.calculator, "calculator")
        stage(f"evaluating {o.calculator}")
        report = atoms(
            potential,
            given,
            None if o.tests is None else [test.strip() for test in o.tests.split(",")],
            elements=o.elements,
            tolerances=o.tolerances,
            features=o.features,
            time_step=o.time_step,
            seed=o.seed,
            progress=True,
        )
    finish(report, o, [] if o.fail_above is None else below(report, o.fail_above), met=False)
