"""Whether the bubblewrap here follows a link out to the host while it builds a sandbox (CVE-2026-87766).

Found out by trying it on two empty folders of our own. It does not change what we do: no mount point of ours ever
lies in a folder a skill could have written (`metier.sandbox.mounts`). People should know all the same.
"""

import os
import tempfile

from metier.sandbox.process import run_limited


async def follows_links_out(bwrap: str) -> bool:
    """True when a link in a bound folder made it create a file outside."""
    with tempfile.TemporaryDirectory(prefix="metier-probe-") as folder:
        written = _trap(folder)
        argv = [
            bwrap, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--bind", written, written,
            "--ro-bind", "/dev/null", f"{written}/d/planted", "--", "/bin/true",
        ]  # fmt: skip
        await run_limited(argv, stdin=b"", seconds=5, memory_mb=256, output_bytes=4_096)
        return _caught(folder)


def _trap(folder: str) -> str:
    written, outside = f"{folder}/written", f"{folder}/outside"
    os.mkdir(written)
    os.mkdir(outside)
    os.symlink(f"/oldroot{os.path.realpath(outside)}", f"{written}/d")
    return written


def _caught(folder: str) -> bool:
    return os.path.exists(f"{folder}/outside/planted")
