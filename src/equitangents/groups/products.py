"""Direct and semidirect products; element (a, b) is number a · |H| + b in both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import Group, check_table_order
from equitangents.groups.permutation_groups import check_permutations
from equitangents.groups.table_group import TableGroup


def direct_product(G: Group, H: Group) -> TableGroup:
    """The direct product G × H, with (a, b)(c, d) = (a·c, b·d); element (a, b) is number a · |H| + b, labelled (a, b).

    >>> from equitangents.groups import cyclic
    >>> direct_product(cyclic(2), cyclic(3)).element(5)
    (1, 2)
    """
    _check_group("G", G)
    _check_group("H", H)
    unmoved = np.broadcast_to(np.arange(G.order), (H.order, G.order))
    return _product(f"{G.name} x {H.name}", G, H, unmoved)


def semidirect_product(N: Group, H: Group, automorphisms: npt.ArrayLike) -> TableGroup:
    """The semidirect product N ⋊ H, with (n, h)(n′, h′) = (n · h(n′), h·h′).

    h(n) = automorphisms[h, n], an array (|H|, |N|).

    Element (n, h) is number n · |H| + h, labelled (n, h). Raises InvalidArgumentError with the witness if some
    automorphisms[h] does not respect the product of N, or automorphisms[h·k] is not automorphisms[h] after
    automorphisms[k].

    >>> from equitangents.groups import cyclic
    >>> S3 = semidirect_product(cyclic(3), cyclic(2), [[0, 1, 2], [0, 2, 1]])
    >>> S3.order, S3.is_abelian
    (6, False)
    """
    _check_group("N", N)
    _check_group("H", H)
    phi = check_permutations("automorphisms", automorphisms)
    if phi.shape != (H.order, N.order):
        raise ShapeError("automorphisms", phi.shape, (H.order, N.order), "give (|H|, |N|)")
    n, s = np.arange(N.order)[:, None], np.array(N.generators, int)
    for h in range(H.order):
        unequal = np.argwhere(phi[h][N._compose(n, s)] != N._compose(phi[h][n], phi[h][s]))
        if len(unequal):
            a, b = int(unequal[0][0]), int(s[unequal[0][1]])
            raise InvalidArgumentError(
                "automorphisms", (a, b), "an automorphism of N", verb="does not respect the product of", at=h
            )
    for t in H.generators:
        for h in range(H.order):
            if not np.array_equal(phi[H.compose(h, t)], phi[h][phi[t]]):
                raise InvalidArgumentError(
                    "automorphisms", (h, t), "φ(h·t) = φ(h) φ(t)", verb="does not respect the product in H of"
                )
    if not np.array_equal(phi[H.identity], n[:, 0]):  # which a trivial group, without generators, is not asked above
        raise InvalidArgumentError(
            "automorphisms", phi[H.identity].tolist(), "the identity's, which moves nothing", at=H.identity
        )
    return _product(f"{N.name} : {H.name}", N, H, phi)


def _product(name: str, N: Group, H: Group, phi: np.ndarray) -> TableGroup:
    order = N.order * H.order
    check_table_order(order, name)
    n, h = np.divmod(np.arange(order), H.order)
    table = np.empty((order, order), np.int32)
    for a in range(order):
        table[a] = N._compose(n[a], phi[h[a]][n]) * H.order + H._compose(h[a], h)
    return TableGroup(name, table, labels=list(zip(n.tolist(), h.tolist(), strict=True)))


def _check_group(name: str, G: object) -> None:
    if not isinstance(G, Group):
        raise InvalidTypeError(name, type(G), "a group", verb="is of type")
