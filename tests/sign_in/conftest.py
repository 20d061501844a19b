"""A machine with a server on it."""

from pathlib import Path

import pytest

from serve_kit import Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)
