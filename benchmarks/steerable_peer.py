"""Kernels and networks of escnn or e3nn, in an interpreter that has it.

`python steerable_peer.py REQUEST.json OUT.npz`: the request names a library, a group, irreps in our notation, group
elements and offsets; the answer has the irreps' matrices, the values of all equivariant kernels between every two of
them, and the outputs of one small network with random weights, with the values of its kernels at the offsets, so that
the same network can be built elsewhere.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np


def rings(offsets: Any, radii: list[float], width: float) -> Any:
    """Gaussian rings at offsets (S, n), (S, R)."""
    import torch

    r = offsets.norm(dim=-1, keepdim=True)
    return torch.exp(-((r - torch.tensor(radii, dtype=offsets.dtype)) ** 2) / (2 * width**2))


class E3nn:
    """Kernels of e3nn's tensor products with spherical harmonics, for O(3)."""

    def __init__(self, request: dict) -> None:
        import e3nn
        import torch
        from e3nn import o3

        torch.set_default_dtype(torch.float64)
        e3nn.set_optimization_defaults(jit_script_fx=False, optimize_einsums=False)
        self.o3, self.request = o3, request
        self._every: Any = None

    def matrices(self, irrep: str, elements: Any) -> Any:
        """ρ(g) of all elements, (K, d, d)."""
        return self.o3.Irrep(irrep).D_from_matrix(elements)

    def product(self, into: str, out: str) -> Any:
        """The tensor product with harmonics of all degrees that matter."""
        degree = sum(max(ir.l for _, ir in self.o3.Irreps(text)) for text in (into, out))
        harmonics = self.o3.Irreps.spherical_harmonics(degree)
        return self.o3.FullyConnectedTensorProduct(into, harmonics, out, internal_weights=False, shared_weights=True)

    def values(self, product: Any, weights: Any, offsets: Any) -> Any:
        """The kernel (S, d', d) that a tensor product with these weights is."""
        import torch

        y = self.o3.spherical_harmonics(product.irreps_in2, offsets, normalize=True, normalization="component")
        y = torch.where(offsets.norm(dim=-1, keepdim=True) > 0, y, torch.zeros_like(y))
        y[..., 0] = 1.0
        size = product.irreps_in1.dim
        unit = torch.eye(size).expand(len(offsets), size, size)
        return product(unit, y[:, None].expand(-1, size, -1), weights).transpose(1, 2)

    def kernels(self, out: str, into: str, offsets: Any) -> Any:
        """All kernels times all rings, (n, S, d', d), from one tensor product of all irreps."""
        import torch

        if self._every is None:
            text = "+".join(f"1x{kind}" for kind in self.request["irreps"])
            self._every = self.product(text, text)
        product, shape = self._every, rings(offsets, self.request["radii"], self.request["width"])
        index = self.request["irreps"].index
        rows, columns = (product.irreps_out.slices()[index(out)], product.irreps_in1.slices()[index(into)])
        found = [torch.zeros(0, len(offsets), 1, 1)]
        for k, path in enumerate(product.instructions):
            if (path.i_out, path.i_in1) == (index(out), index(into)):
                values = self.values(product, torch.eye(product.weight_numel)[k], offsets)[:, rows, columns]
                found.append(torch.stack([values * shape[:, r, None, None] for r in range(shape.shape[1])]))
        return torch.cat(found[1:]) if found[1:] else found[0]

    def network(self, spec: dict) -> dict:
        """Convolution, e3nn's gate, convolution, on points x (N, P, n + channels)."""
        import torch
        from e3nn import nn

        gate = nn.Gate(spec["scalars"], [torch.tanh], spec["gates"], [torch.sigmoid], spec["gated"])
        x = torch.tensor(spec["x"], dtype=torch.float64)
        points, values = x[..., :3], x[..., 3:]
        between = points[:, None] - points[:, :, None]  # (N, i, j, n): x_j - x_i
        answer = {}
        for i, (into, out) in enumerate([(spec["into"], str(gate.irreps_in)), (str(gate.irreps_out), spec["out"])]):
            product = self.product(into, out)
            weights = [torch.randn(product.weight_numel) for _ in self.request["radii"]]

            def kernel(offsets: Any, product: Any = product, weights: Any = weights) -> Any:
                shape = rings(offsets, self.request["radii"], self.request["width"])
                return sum(self.values(product, w, offsets) * shape[:, r, None, None] for r, w in enumerate(weights))

            answer[f"total_{i}"] = kernel(torch.tensor(self.request["offsets"], dtype=torch.float64))
            matrices = kernel(between.reshape(-1, 3)).reshape(*between.shape[:3], product.irreps_out.dim, -1)
            values = torch.einsum("nijab,njb->nia", matrices, values)
            if i == 0:
                values = gate(values)
        functions = [gate.act_scalars.acts[0].cst, gate.act_gates.acts[0].cst]
        return {
            **answer,
            "y": values,
            "constants": torch.tensor(functions),
            "order": (str(gate.irreps_in), str(gate.irreps_out)),
        }


class Escnn:
    """escnn's kernel bases for SO(2), O(2), SO(3) and O(3)."""

    def __init__(self, request: dict) -> None:
        from escnn import group, kernels

        name, top = request["group"], 8
        self.request = request
        makers = {"SO(2)": group.so2_group, "O(2)": group.o2_group, "SO(3)": group.so3_group, "O(3)": group.o3_group}
        self.group = makers[name](3 if name.endswith("(3)") else top)
        self.make = getattr(kernels, f"kernels_{name.replace('(', '').replace(')', '')}_act_R{name[-2]}")

    def irrep(self, text: str) -> Any:
        """The irrep that a text of ours names."""
        degree, odd = int(text.rstrip("eo")), text.endswith("o")
        if self.request["group"] == "O(3)":
            return self.group.irrep(int(odd), degree)
        if self.request["group"] == "O(2)":
            return self.group.irrep(int(odd or degree > 0), degree)
        return self.group.irrep(degree)

    def matrices(self, irrep: str, elements: Any) -> Any:
        """ρ(g) of all elements, (K, d, d)."""
        import torch

        rho = self.irrep(irrep)
        return torch.tensor(np.stack([rho(self.element(np.asarray(g))) for g in elements]))

    def element(self, g: np.ndarray) -> Any:
        """The group element of an orthogonal matrix."""
        name = self.request["group"]
        angle = float(np.arctan2(g[1, 0], g[0, 0]))
        if name == "SO(2)":
            return self.group.element(angle)
        if name == "O(2)":  # (1, θ): the reflection of y first, then the turn by θ
            return self.group.element((int(np.linalg.det(g) < 0), angle))
        if name == "SO(3)":
            return self.group.element(g, "MAT")
        sign = int(np.linalg.det(g) < 0)
        return self.group.element((sign, g * (-1) ** sign), "MAT")

    def kernels(self, out: str, into: str, offsets: Any) -> Any:
        """All kernels times all rings, (n, S, d', d)."""
        import torch

        options = {"axis": 0.0} if self.request["group"] == "O(2)" else {}
        width, radii = float(self.request["width"]), list(map(float, self.request["radii"]))
        try:
            basis = self.make(self.irrep(into), self.irrep(out), radii, width, maximum_frequency=6, **options)
        except Exception as error:  # escnn's error for a basis without elements has no name to import everywhere
            if "Empty" not in type(error).__name__:
                raise
            return torch.zeros(0, len(offsets), 1, 1)
        with torch.no_grad():
            found = basis.double().sample(offsets)  # (S, n, d', d)
        return found.movedim(1, 0) if found.shape[0] == len(offsets) else found.permute(2, 3, 0, 1)

    def network(self, spec: dict) -> dict:
        """R2Conv, NormNonLinearity with its bias, R2Conv on images x (N, H, W, C), every filter twice the image."""
        import torch
        from escnn import gspaces
        from escnn import nn as enn

        space = gspaces.rot2dOnR2(-1, maximum_frequency=8)
        kind = lambda text: enn.FieldType(
            space,
            [space.irrep(int(part.split("x")[1])) for part in text.split("+") for _ in range(int(part.split("x")[0]))],
        )
        into, hidden, out = (kind(spec[name]) for name in ("into", "hidden", "out"))
        x = torch.tensor(spec["x"], dtype=torch.float64).movedim(-1, 1)
        size = 2 * x.shape[-1] - 1
        radii, width = list(map(float, self.request["radii"])), float(self.request["width"])
        make = lambda a, b: enn.R2Conv(
            a, b, size, padding=size // 2, bias=False, rings=radii, sigma=[width] * len(radii),
            frequencies_cutoff=lambda r: 8,
        )  # fmt: skip
        layers = [make(into, hidden), enn.NormNonLinearity(hidden, "n_relu", bias=True), make(hidden, out)]
        value = enn.GeometricTensor(x, into)
        answer = {}
        with torch.no_grad():
            for i, layer in enumerate(layers):
                layer.double()
                value = layer(value)
                if i != 1:
                    total = layer.expand_parameters()[0]  # (d', d, rows, columns)
                    answer[f"total_{i // 2}"] = total.permute(2, 3, 0, 1).reshape(-1, *total.shape[:2])
        return {**answer, "y": value.tensor.movedim(1, -1)}


def main() -> None:
    """Read a request, write the answer."""
    warnings.simplefilter("ignore")
    import torch

    torch.manual_seed(0)
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    library: Any = (E3nn if request["library"] == "e3nn" else Escnn)(request)
    elements, offsets = (torch.tensor(request[name], dtype=torch.float64) for name in ("elements", "offsets"))
    answer: dict[str, Any] = {}
    for i, out in enumerate(request["irreps"]):
        answer[f"rho_{i}"] = library.matrices(out, elements)
        for j, into in enumerate(request["irreps"]):
            answer[f"kernels_{i}_{j}"] = library.kernels(out, into, offsets)
    if "network" in request:
        answer.update(library.network(request["network"]))
    arrays: dict[str, Any] = {k: np.asarray(v.detach() if hasattr(v, "detach") else v) for k, v in answer.items()}
    np.savez(sys.argv[2], **arrays)


if __name__ == "__main__":
    main()
