"""The variants of `make test-machines`: what each needs, and which one a commit chooses."""

from __future__ import annotations

import hashlib

from scripts import machines


def test_commits_choose_every_variant_and_always_the_same():
    names = list(machines.VARIANTS)
    commits = [hashlib.sha1(str(i).encode()).hexdigest() for i in range(100)]
    chosen = [machines.chosen_by(commit, names) for commit in commits]
    assert set(chosen) == set(names)
    assert chosen == [machines.chosen_by(commit, names) for commit in commits]


def test_a_variant_needs_what_its_libraries_need():
    everything = {flag for flags in machines.NEEDS.values() for flag in flags}
    for name, variant in machines.VARIANTS.items():
        assert variant.missing(everything) == []
        assert bool(variant.missing(set())) == (not name.startswith("nehalem"))
    assert machines.VARIANTS["zen-sse2"].missing({"avx2", "fma"}) == ["bmi2"]
