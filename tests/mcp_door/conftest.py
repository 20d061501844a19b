"""Fixtures of the MCP door."""

from pathlib import Path

import pytest

from mcp_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)
