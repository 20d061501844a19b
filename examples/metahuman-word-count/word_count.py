"""Counts the words of a file. It can read the folders of its manifest and nothing else."""

from pathlib import Path


def execute(inputs):
    try:
        text = Path(inputs["path"]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return {"success": False, "error": f"the file cannot be read as text: {type(error).__name__}"}
    words = text.split()
    outputs = {"lines": len(text.splitlines()), "words": len(words)}
    if inputs.get("longest") and words:
        outputs["longest"] = max(words, key=len)
    return {"success": True, **outputs}
