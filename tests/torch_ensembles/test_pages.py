"""The pages of the documentation whose examples need PyTorch run."""

from pathlib import Path

import pytest

from docs.test_examples import PAGES, WITH_TORCH, run


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in WITH_TORCH], ids=lambda page: page.stem)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)
