"""What the tool `count` runs. It gets the arguments and returns what its schema promises; it can read this folder, nothing else."""

from typing import Any


def main(params: dict[str, Any]) -> dict[str, int]:
    text: str = params["text"]
    return {"words": len(text.split()), "lines": len(text.splitlines())}
