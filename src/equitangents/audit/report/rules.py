"""How the outputs move, in words."""

from __future__ import annotations

from equitangents.audit.report.sections import RuleResult
from equitangents.audit.report.words import listed, number, of


def rule_said(rule: RuleResult, several: bool = False) -> str:
    """One sentence: the rule and its error beside that of an invariant output, or that none was found."""
    output = f"output {rule.output}" if several and not rule.output.startswith("output") else rule.output
    error = "an unknown error" if rule.error is None else number(rule.error.mean)
    without = "an unknown error" if rule.invariant is None else number(rule.invariant.mean)
    of_what = f"{of(rule.unit)}, on {rule.tested_on} inputs"
    if rule.kind == "inverse":
        whose = f" of {output}" if several else ""
        return (
            f"The sign of the given action{whose} is wrong: with its inverse, {rule.rule}, the error is {error} in "
            f"place of {without} ({of_what})."
        )
    if rule.found:
        whose = f"{output[0].upper()}{output[1:]} is equivariant" if several else "Equivariant"
        to = "exactly" if rule.error is not None and rule.error.mean == 0 else f"to {error}"
        return f"{whose} {to} if {rule.rule}; as invariant {without} ({of_what} that did not fit this).{_labels(rule)}"
    if not rule.tried:
        return (
            f"No rule was found by which {output} moves: what was fitted does not respect the products of the group, "
            f"and the group moves nothing of its shape; as invariant {without} ({of_what})."
        )
    return (
        f"No rule was found by which {output} moves: of {len(rule.tried)} that were fitted on {rule.fitted_on} inputs "
        f"({listed(rule.tried)}) the best leaves {error}; as invariant {without} ({of_what} that did not fit them)."
    )


def _labels(rule: RuleResult) -> str:
    """How many predictions change places as the rule says, and by how much probabilities differ; "" without classes."""
    if rule.agreement is None:
        return ""
    differ = "" if rule.probability is None else f", probabilities differ by {number(rule.probability.mean)}"
    return f" Labels turn with the inputs: {number(rule.agreement.mean)} of predictions agree{differ}."


def by_hand(rule: RuleResult) -> str:
    """How to give a found rule the next time; "" where that needs "find"."""
    if not rule.found or rule.by_hand is None:
        return ""
    option = ""
    if rule.by_hand.startswith("equitangents.audit.Labels(["):
        rows = rule.by_hand.removeprefix("equitangents.audit.Labels(").removesuffix(")").replace(" ", "")
        option = f", on the command line --outputs labels:{rows.strip('[]').replace('],[', '/')}"
    elif rule.by_hand.startswith('"'):
        option = f", on the command line --outputs {rule.by_hand[1:-1]}"
    return f"by hand, for {rule.output}: output_action={rule.by_hand}{option}"
