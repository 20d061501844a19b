"""The SDK takes a second and 64 MB: nobody pays for it who does not speak MCP."""

import subprocess
import sys

import pytest

LOOK = "import sys; {}; found = {{'mcp', 'mcp_types', 'pydantic', 'starlette', 'uvicorn'}} & sys.modules.keys(); assert not found, found"


@pytest.mark.parametrize(
    "does",
    [
        "import metier; metier.Runtime",
        "import metier.runtime.engine",
        "import metier.doors.cli.call, metier.doors.cli.mcp_install",
        "from metier.doors.cli import metier as m; m.get_command(None, 'mcp').get_command(None, 'install')",
        "import metier.doors.mcp.messages, metier.doors.mcp.questions",
    ],
)
def test_what_is_not_mcp_does_not_import_it(does: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(does)], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
