"""Frozen numbers: what kernels, ensembles, audits, refusals and studies came to, so that a change shows what it moves.

`python -m tests.frozen --check 30` computes 30 cases anew, `--check all` all, `--write FAMILY` what a family lacks.
"""
