"""Running a study: settings, folder, measurement, verdicts, tables, figures, report."""

from __future__ import annotations

import importlib
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equitangents.errors import InvalidArgumentError
from equitangents.studies.catalogue import StudyInfo, registry

if TYPE_CHECKING:
    from equitangents.report.verdict import Verdict
    from equitangents.studies.framework.study import Study


@dataclass(frozen=True)
class StudyResult:
    """A finished run: where it lies, its report, its summary and a verdict per claim."""

    name: str
    preset: str
    folder: Path
    report: Path
    summary: str
    claims: tuple[Verdict, ...]
    seconds: float


def run(
    name: str,
    preset: str = "quick",
    out: str | Path | None = None,
    resume: bool = False,
    settings: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    progress: bool = True,
) -> StudyResult:
    """Run study `name` and write its folder: config.json, results/, figures/, verdicts.json and report.html.

    `out` is the folder, by default `runs/<name>-<preset>`; what an earlier run left there is replaced, unless `resume`
    asks to go on from it. `settings` changes the preset, as text: {"members": "20"}. `data_dir` holds data files.
    A claim that fails is a result, not an error.

    Raises InvalidArgumentError for an unknown study, preset or setting, and for a folder that holds something else.

    Example: `run("toy", settings={"members": "50"}).claims`
    """
    info = _lookup(name, preset)
    from equitangents.studies.framework import settings as reading

    study: Study[Any, Any] = importlib.import_module(info.module).STUDY
    chosen = reading.changed(study.presets[preset], settings)
    folder = Path(out).expanduser() if out is not None else Path("runs") / f"{name}-{preset}"
    return _run(info, study, preset, chosen, folder, resume, None if data_dir is None else Path(data_dir), progress)


def _run(
    info: StudyInfo,
    study: Study[Any, Any],
    preset: str,
    settings: Any,
    path: Path,
    resume: bool,
    data_dir: Path | None,
    progress: bool,
) -> StudyResult:
    from equitangents.report import Page, write
    from equitangents.studies.framework.folder import RunFolder, write_json
    from equitangents.studies.framework.progress import Progress
    from equitangents.studies.framework.settings import as_dict, as_text

    start = time.monotonic()
    versions = installed_versions()
    config = {
        "study": info.name,
        "preset": preset,
        "settings": as_dict(settings),
        "versions": versions,
        "data_dir": None if data_dir is None else str(data_dir),
    }
    bars = Progress(shown=progress)
    folder = RunFolder(path, config, resume=resume, data_dir=data_dir, progress=bars)
    with bars.running():
        results = study.measure(settings, folder)
    verdicts = tuple(study.claims(settings, results))
    shown = study.present(settings, results, verdicts, folder)
    for table, columns in shown.tables.items():
        folder.write_table(table, columns)
    write_json(path / "verdicts.json", [verdict.to_dict() for verdict in verdicts])
    seconds = time.monotonic() - start
    page = Page(
        title=info.title,
        kicker=f"Study {info.name}, preset {preset}. Source: {info.source}",
        summary=shown.summary,
        verdicts=verdicts,
        sections=shown.sections,
        settings=as_text(settings),
        versions=versions,
        rerun=command(info.name, preset, as_text(settings), as_text(study.presets[preset]), data_dir is not None),
        citations=study.citations,
        facts={**shown.facts, "Run time": format_seconds(seconds) + (" (resumed)" if resume else "")},
    )
    report = write(page, path / "report.html")
    return StudyResult(info.name, preset, path, report, shown.summary, verdicts, seconds)


def _lookup(name: str, preset: str) -> StudyInfo:
    if name not in registry:
        raise InvalidArgumentError(f"there is no study {name!r}; the studies are {', '.join(registry)}")
    info = registry[name]
    if preset not in info.presets:
        raise InvalidArgumentError(f"study {name!r} has no preset {preset!r}; it has {', '.join(info.presets)}")
    return info


def installed_versions() -> dict[str, str]:
    """Versions of the package, of Python, of what the numbers depend on, and the platform and device."""
    import importlib.metadata

    import jax

    from equitangents._version import __version__

    libraries = {lib: importlib.metadata.version(lib) for lib in ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")}
    device = jax.devices()[0]
    return {
        "equitangents": __version__,
        "python": platform.python_version(),
        **libraries,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": f"{jax.device_count()} × {device.device_kind}",
    }


def command(name: str, preset: str, settings: Mapping[str, str], preset_settings: Mapping[str, str], data: bool) -> str:
    """The command line that runs the same study with the same settings."""
    changes = [f"--set {key}={value}" for key, value in settings.items() if value != preset_settings[key]]
    folder = ["--data-dir FOLDER"] if data else []
    return " ".join(["equitangents reproduce", name, f"--preset {preset}", *changes, *folder])


def format_seconds(seconds: float) -> str:
    """A duration as one says it: 48 s, 2 min 5 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
