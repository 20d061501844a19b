"""Memories on the disk, for tests of the index over them."""

import json
from pathlib import Path

from metier.memory.index import MemoryIndex

LAKE = "We swam across the mountain lake before breakfast."
TAX = "The accountant wants all invoices by the end of March."
SECRET = "The code of the safe behind the painting is zebrafinch."


def put(folder: Path, name: str, content: str, **more: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": path.stem, "content": content, **more}))
    return path


def ids(index: MemoryIndex, query: str, *, include_private: bool = False) -> list[str]:
    return [hit.id for hit in index.search(query, include_private=include_private)]
