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


def test_all_that_is_asked_for_is_in_the_environment():
    found = machines.VARIANTS["haswell-avx2"].environment()
    assert found["OPENBLAS_CORETYPE"] == "Haswell"
    assert found["EQUITANGENTS_INSTRUCTIONS"] == "avx2"
    words = found["XLA_FLAGS"].split()
    assert "--xla_cpu_max_isa=AVX2" in words
    assert words[-1] == "intra_op_parallelism_threads=1"  # what follows a word without a dash is not read
