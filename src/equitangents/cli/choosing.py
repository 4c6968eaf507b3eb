"""`equitangents fit --net auto`: what of the command it takes, how far it is, and what it says in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli.completion import group_name, net_name
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration

if TYPE_CHECKING:
    from equitangents.fit import Choice, Step
    from equitangents.fit.held_out import HeldOut

AUTO = "auto"
_OTHERS = (
    "depth", "w_std", "b_std", "time", "learning_rate", "ridge", "kernel", "dynamics", "store", "solver",
    "memory_limit", "input_shape",
)  # fmt: skip

_PAIRS = 5  # that are named
_OWN = ("minutes", "keep_together", "baselines", "fast")


def check_confidence(least: float | None) -> None:
    """Raise InvalidArgumentError unless it is a probability."""
    if least is not None and not 0 < least <= 1:
        raise InvalidArgumentError("min_confidence", least, "a number above 0, and at most 1")


def answered(held: HeldOut, least: float) -> str:
    """The line about predictions of a probability of `least` or more."""
    share, right = held.answered(least)
    return f"probability {least:g} or more: {share:.1%} of left-out samples, {right:.1%} of them right"


def net_or_auto(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """As `completion.net_name`, or "auto"."""
    return value if value == AUTO else net_name(parameter, value)


def group_or_auto(value: str | None) -> str | None:
    """As `completion.group_name`, or "auto"."""
    return value if value == AUTO else group_name(value)


def check_group(group: str | None, why: str) -> None:
    """Raise InvalidArgumentError where the group is to be chosen and another network is fitted."""
    if group == AUTO:
        raise InvalidArgumentError("group", "auto", "C4, D4, ...; 'auto' is for --net auto", why)


def other_option(context: typer.Context) -> str | None:
    """An option that is given and that --net auto does not take, so that `mlp` is meant; None where there is none.

    Raises InvalidArgumentError where --net auto is given as well.
    """
    options = {str(p.name): p.opts[0] for p in context.command.params}
    given = [options[name] for name in _OTHERS if _is_given(context, name)]
    if given and _is_given(context, "net"):
        raise InvalidArgumentError(
            given[0], "given", "none with --net auto", "leave it out, or name a network by --net"
        )
    return given[0] if given else None


def check_named(context: typer.Context, why: str) -> None:
    """Raise InvalidArgumentError where an option of --net auto is given and another network is fitted."""
    options = {str(p.name): p.opts[0] for p in context.command.params}
    for name in _OWN:
        if _is_given(context, name):
            raise InvalidArgumentError(options[name], "given", "none without --net auto", why)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def obstacle(x: Any, y: Any, classifies: bool) -> str | None:
    """For what nothing can be chosen, so that `mlp` is fitted; None where it can."""
    from equitangents.fit import LEAST, MOST

    if not classifies:
        return "regression"
    if y.ndim > 1:
        return "labels at positions"
    if x.ndim not in (2, 4):
        return f"inputs with {x.ndim - 1} axes"
    return None if LEAST <= len(x) <= MOST else f"{len(x):,} samples"


def progress(stage: Callable[[str], None]) -> Callable[[Step], None]:
    """Draws each step as a stage."""

    def told(step: Step) -> None:
        best = "" if step.best is None else f"; best {step.best.name}, log loss {step.best.log_loss:.3f}"
        stage(f"{step.name} {step.share:.0%}; {duration(step.seconds_left)} left{best} (Ctrl-C takes the best so far)")

    return told


def said(choice: Choice, names: Sequence[str]) -> list[str]:
    """Lines about a choice of samples of these names: what is better, both tables, near-duplicates, an interruption."""
    ahead = ", ".join(each.name for each in choice.others if each.is_ahead) or "none"
    lines = [f"shown to be more accurate on the same folds: {ahead}"] if choice.others else []
    lines += [choice.scores().rstrip(), choice.candidates().rstrip()]
    lines += [choice.turning().rstrip()] if choice.turned else []
    lines += [choice.speed().rstrip()]
    lines += [f"refused: {name}: {why}" for name, why in choice.refused]
    lines += _near_duplicates(choice, names)
    return [*lines, *(["interrupted: the best so far is taken"] if choice.interrupted else [])]


def _near_duplicates(choice: Choice, names: Sequence[str]) -> list[str]:
    """The number of pairs of nearly equal images, with the remedy, and the first of them."""
    pairs = choice.near_duplicates
    if not pairs:
        return []
    named = (
        [f"  {names[i]}  {names[j]}" for i, j in pairs[:_PAIRS]]
        if names
        else [f"  {i}  {j}" for i, j in pairs[:_PAIRS]]
    )
    more = ["  …"] if len(pairs) > _PAIRS else []
    return [f"near-duplicates, by which scores are too good: {len(pairs)} pairs (--keep-together)", *named, *more]
