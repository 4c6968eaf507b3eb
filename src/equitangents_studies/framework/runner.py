"""Running a study: settings, folder, measurement, claims, tables, figures, report."""

from __future__ import annotations

import contextlib
import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equitangents.errors import InvalidArgumentError
from equitangents.extending import real
from equitangents_studies.framework.catalogue import StudyInfo, load, lookup

if TYPE_CHECKING:
    from equitangents_studies.claim import Claim
    from equitangents_studies.framework.folder import RunFolder
    from equitangents_studies.framework.study import Present, Study


@dataclass(frozen=True)
class StudyResult:
    """A finished run: its folder, report and claims; `seconds` of all its sessions."""

    name: str
    preset: str
    folder: Path
    report: Path
    claims: tuple[Claim, ...]
    seconds: float


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a study; `command` resumes it."""

    def __init__(self, command: str) -> None:
        super().__init__(f"interrupted; to go on: {command}")
        self.command = command


def run(
    name: str,
    preset: str = "quick",
    out: str | Path | None = None,
    resume: bool = False,
    settings: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    progress: bool = True,
    force: bool = False,
) -> StudyResult:
    """Run study `name` and write its folder: config.json, results/, figures/, claims.json and report.html.

    `out` is the folder, by default `runs/<name>-<preset>`. With `resume` the run there goes on. A folder with a
    finished run, or one of another study or with other settings, is not touched, unless `force` is given, which removes
    that run first. `settings` changes the preset, as text: {"members": "20"}. `data_dir` holds data files. A claim that
    fails is a result, not an error.

    Raises InvalidArgumentError for an unknown study, preset or setting, for data that are not there, and for a folder
    that holds something else, a run begun by another version, or one that another process is writing to; then nothing
    has been touched.

    Example: `run("toy", settings={"members": "50"}).claims`
    """
    info = lookup(name, preset)
    if resume and force:
        raise InvalidArgumentError("force", force, "False with resume", "resume continues a run, force replaces it")
    study, present = load(info)
    from equitangents_studies.framework import study as reading
    from equitangents_studies.framework.folder import RunFolder, only_run
    from equitangents_studies.framework.progress import StudyProgress

    chosen = reading.changed(study.presets[preset], settings)
    data = None if data_dir is None else Path(data_dir).expanduser()
    study.check(chosen, data)
    path = Path(out).expanduser() if out is not None else Path("runs") / f"{name}-{preset}"
    path = real(path) if path.is_symlink() else path
    config = {
        "study": info.name,
        "preset": preset,
        "settings": reading.as_dict(chosen),
        "versions": installed_versions(),
        "data_dir": None if data is None else str(data),
    }
    RunFolder.examine(path, config, resume=resume, force=force)
    stages = StudyProgress(shown=progress)
    with only_run(path):
        folder = RunFolder(path, config, resume=resume, force=force, data_dir=data, progress=stages)
        before = reading.as_text(study.presets[preset])
        other = {key: text for key, text in reading.as_text(chosen).items() if text != before[key]}
        try:
            with stages.running():
                results = study.measure(chosen, folder)
            return _report(info, study, present, preset, chosen, results, folder, command(name, preset, other, data))
        except BaseException as stop:
            with contextlib.suppress(OSError):  # a full disk has stopped it, perhaps
                folder.keep_time("interrupted" if isinstance(stop, KeyboardInterrupt) else "failed")
            if not isinstance(stop, KeyboardInterrupt):
                raise
            raise Interrupted(command(name, preset, other, data, resume=path)) from None


def _report(
    info: StudyInfo,
    study: Study[Any, Any],
    present: Present,
    preset: str,
    settings: Any,
    results: Any,
    folder: RunFolder,
    rerun: str,
) -> StudyResult:
    """Write claims, tables, figures and the page, and mark the run as complete."""
    from equitangents.report import write
    from equitangents_studies.framework.catalogue import BIBTEX
    from equitangents_studies.framework.folder import write_json
    from equitangents_studies.framework.report import Page
    from equitangents_studies.framework.study import as_text

    claims = tuple(study.claims(settings, results))
    shown = present(settings, results, folder)
    numbers = [
        (c.statement, label, e.value, *e.interval, c.unit)
        for c in claims
        for label, e in (c.numbers or {c.shown: c.estimate}).items()
    ]
    names = ("claim", "of", "number", "low", "high", "unit")
    folder.write_table("claims", {name: [row[i] for row in numbers] for i, name in enumerate(names)})
    write_json(folder.path / "claims.json", [claim.to_dict() for claim in claims])
    seconds = folder.seconds
    page = Page(
        info=info,
        preset=preset,
        claims=claims,
        shown=shown,
        settings=as_text(settings),
        versions=installed_versions(),
        rerun=rerun,
        citations=[BIBTEX.get(work, work) for work in study.citations],
        seconds=seconds,
    )
    write_json(folder.path / "report.json", page.to_dict())
    write(page.html(), folder.path / "report.html")
    folder.finish()
    return StudyResult(info.name, preset, folder.path, folder.path / "report.html", claims, seconds)


def installed_versions() -> dict[str, str]:
    """Versions of the package, Python and the numerical libraries; platform and device."""
    import importlib.metadata

    import jax

    from equitangents import __version__

    libraries = {lib: importlib.metadata.version(lib) for lib in ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")}
    device = jax.devices()[0]
    return {
        "equitangents": __version__,
        "python": platform.python_version(),
        **libraries,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": f"{jax.device_count()} × {device.device_kind}",
    }


def command(
    name: str, preset: str, settings: Mapping[str, str], data_dir: Path | None, *, resume: Path | None = None
) -> str:
    """The command line that runs the study with `settings` changed from the preset, or resumes it in a folder."""
    arguments = ["equitangents", "reproduce", name, "--preset", preset]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    if data_dir is not None:
        arguments += ["--data-dir", "FOLDER" if resume is None else str(data_dir)]
    if resume is not None:
        arguments += ["--out", str(resume), "--resume"]
    return shlex.join(arguments)
