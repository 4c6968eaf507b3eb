"""The network of escnn_peer.py as a contender of the study `comparison`: `fit` and `predict` in another interpreter."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np

from equitangents_studies.contenders import Problem
from equitangents_studies.contenders.networks import count_parameters
from equitangents_studies.contenders.registry import group_convolutional
from equitangents_studies.contenders.turned_filters import exact_on_filters

PEER = Path(__file__).with_name("escnn_peer.py")
VARIABLE = "EQUITANGENTS_ESCNN_PYTHON"


class Escnn:
    """As many parameters, images, epochs and images a step as our contender `gcnn`; rotations only."""

    def __init__(self, problem: Problem) -> None:
        if not problem.group.startswith("C"):
            raise ValueError(f"group is {problem.group}; this benchmark has rotations only, such as C4")
        self.problem, self.parameters = problem, float("nan")
        self._process: subprocess.Popen[str] | None = None

    def spec(self) -> dict:
        """What the other process is told."""
        p = self.problem
        return {
            "order": int(p.action.group.order),
            "shape": list(p.shape),
            "classes": p.classes,
            "taps": 3 if exact_on_filters(p.group) else 5,
            "convolutions": len(p.channels) - 1,
            "parameters": count_parameters(group_convolutional(p), p.shape),
            "epochs": p.epochs,
            "batch": p.batch,
            "seed": p.seed,
        }

    def fit(self, x: np.ndarray, y: np.ndarray) -> Escnn:
        """Train there."""
        command = [os.environ.get(VARIABLE, sys.executable), str(PEER)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        weakref.finalize(self, _end, self._process)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/train.npz"
            np.savez(path, x=np.asarray(x, np.float32), y=y)
            answer = self._ask({"fit": path, "spec": self.spec()})
        self.parameters = float(answer["parameters"])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Scores (N, classes)."""
        with tempfile.TemporaryDirectory() as folder:
            path, into = f"{folder}/x.npz", f"{folder}/scores.npy"
            np.savez(path, x=np.asarray(x, np.float32))
            self._ask({"predict": path, "into": into})
            scores: np.ndarray = np.load(into)
        return scores

    def _ask(self, request: dict) -> dict:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"escnn ended without an answer; {VARIABLE} names an interpreter that has it")
        answer: dict = json.loads(line)
        return answer


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    process.wait()
