"""A report with every section, made up: for pages, which only show what they are given."""

from __future__ import annotations

import numpy as np

from equitangents.audit.report import numbers
from equitangents.audit.report import part_sections as p
from equitangents.audit.report import sections as s
from equitangents.audit.report.result import FORMAT, AuditReport

GUILTY = "layer4"


def estimate(mean, width=0.15):
    return numbers.Estimate(mean, mean * (1 - width), mean * (1 + width))


def spread(mean):
    return numbers.Spread(estimate(mean), *(mean * f for f in (0.3, 0.7, 0.95, 1.2, 1.8, 2.5)))


def element(k, mean, angle):
    label = f"reflection {k}" if angle is None else f"turn by {angle:g}°"
    exact = angle is None or angle % 90 == 0
    return s.ElementResult(label, k, angle, exact, spread(mean), 3, None, None, 0.002, False, 0.9)


def point(k, order, image, rng, images):
    angle = 360 * k / order
    inputs = {"x": np.rot90(image, k * 4 // order).tolist()} if images else {}
    return s.OrbitPoint(f"turn by {angle:g}°", k, angle, inputs, rng.normal(size=5).tolist(), 0.1 * (k > 0))


def witness(kind, rng, order, images):
    image = rng.random((8, 8, 1))
    orbit = [point(k, order, image, rng, images) for k in range(order)]
    return s.Witness(kind, 7, orbit[1].label, 1, 0.31, "channels_last" if images else None, orbit)


def layer_section():
    kinds = ("Conv", "Relu", "Conv", "Relu", "MaxPool", "Flatten", "Dense")
    layers = [
        p.LayerResult(f"layer{i}", kind, [8, 8, 4], 1e-7 if i < 4 else 0.04 * i, 1e-6, i >= 4, 0.0)
        for i, kind in enumerate(kinds)
    ]
    return p.LayerSection(layers, GUILTY, "layer")


def example_report(order=16, reflections=4, name="module.net", images=True):
    """An AuditReport over `order` turns and some reflections, with every optional section filled."""
    rng = np.random.default_rng(0)
    sizes = lambda k: 0.03 + 0.05 * abs(np.sin(2 * np.pi * k / order))
    elements = [element(k, sizes(k), 360 * k / order) for k in range(1, order)]
    elements += [element(k, 0.05 + 0.01 * k, None) for k in range(reflections)]
    errors = np.array([[e.error.estimate.mean] * 4 for e in elements])
    image, scores = s.InputContract("x", [20, 8, 8, 1], "float32", "turns", False), estimate(0.06)
    members = [p.EnsembleSize(m, estimate(1e-4 + 0.01 / m), 1e-4 + 0.01 / m) for m in (1, 2, 4, 8, 16)]
    return AuditReport(
        format=FORMAT,
        verdict="broken",
        reason="above noise floor",
        contract=s.ContractSection(
            group="D16",
            order=2 * order,
            complete=True,
            elements=len(elements),
            layout="channels_last",
            inputs=[image],
            outputs=[s.OutputContract("y", [5], "invariant", scores)],
        ),
        model=s.ModelSection(name, "callable", "float32", "cpu", True, True, 0.0),
        error=spread(0.061),
        floor=0.002,
        elements=elements,
        float_floor=s.FloatFloor(3e-7, "perturbation"),
        orbit=s.OrbitSection(estimate(0.82), "logits"),
        relative=s.RelativeSection(1.0, 0.06, "error rate", 0.1, 0.14),
        sets=[
            s.SetResult("data", "data", 20, estimate(0.06), 0.002, False, estimate(0.8)),
            s.SetResult("noise", "noise", 20, estimate(0.12), 0.002, False, None),
        ],
        layers=layer_section(),
        ensemble=p.EnsembleSection(16, estimate(0.1), estimate(0.03), members, 0.1, numbers.Estimate(0.01, 0.0, 0.02)),
        data=p.DataSection(0.01, 0.3, 20, True),
        remedies=[
            p.Remedy(
                "orbit averaging",
                "exact",
                16,
                "evaluations per input",
                estimate(0.06),
                estimate(0.0),
                0.1,
                0.09,
            )
        ],
        witnesses=[witness(kind, rng, order, images) for kind in ("worst", "typical")],
        missing=[p.Missing("member spread", "the model is no ensemble")],
        settings=p.AuditSettings(0.95, 2000, 0, 64, 20, {"off_data": True}),
        versions={"equitangents": "0.1.0", "numpy": "2"},
        timing=p.Timing(1.5, 1.1, 400),
        citations=["Someone, Something, 2024"],
        errors=errors,
        floors=errors * 0.0,
        parameters=list(range(len(elements))),
    )
