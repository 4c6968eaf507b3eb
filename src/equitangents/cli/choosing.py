"""`equitangents fit --net auto`: what of the command it takes, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

from equitangents.cli.completion import group_name, net_name
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import duration

if TYPE_CHECKING:
    from equitangents.fit import Step

AUTO = "auto"
REGRESSION = "regression"


def net_or_auto(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """As `completion.net_name`, or "auto"."""
    return value if value == AUTO else net_name(parameter, value)


def group_or_auto(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """As `completion.group_name`, or "auto"."""
    return value if value == AUTO else group_name(parameter, value)


def check_group(group: str | None, why: str) -> None:
    """Raise InvalidArgumentError where the group is to be chosen and another network is fitted."""
    if group == AUTO:
        raise InvalidArgumentError("group", "auto", "C4, D4, ...; 'auto' is for --net auto", why)


def other_option(context: typer.Context, names: Iterable[str]) -> str | None:
    """One of these options that is given, which --net auto does not take: `mlp` is meant; None where there is none.

    Raises InvalidArgumentError where --net auto is given as well.
    """
    options = {str(p.name): p.opts[0] for p in context.command.params}
    given = [options[name] for name in names if _is_given(context, name)]
    if given and _is_given(context, "net"):
        raise InvalidArgumentError(
            given[0], "given", "none with --net auto", "leave it out, or name a network by --net"
        )
    return given[0] if given else None


def check_named(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Raise InvalidArgumentError where one of these options, of --net auto, is given and `why` not it is fitted."""
    options = {str(p.name): p.opts[0] for p in context.command.params}
    for name in names:
        if _is_given(context, name):
            raise InvalidArgumentError(options[name], "given", "none without --net auto", why)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def obstacle(x: Any, y: Any, classifies: bool) -> str | None:
    """For what nothing can be chosen, so that `mlp` is fitted; None where it can."""
    from equitangents.fit import LEAST, MOST

    if not classifies:
        return REGRESSION
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
