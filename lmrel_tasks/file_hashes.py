"""Hashes of model files and weights, so that a changed model is another model."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lmrel_tasks.model_files import cache_folder

log = logging.getLogger(__name__)

# Files of a model folder that bear on what it generates.
_MODEL_FILES = (
    "*.safetensors",
    "*.bin",
    "*.pt",
    "*.pth",
    "*.gguf",
    "*.onnx",
    "*.json",
    "*.model",
    "*.jinja",
    "merges.txt",
    "vocab.txt",
)
_SAMPLED_WEIGHTS = 4096


def digest(parts: Iterable[str]) -> bytes:
    """Hash of a sequence of texts, 16 bytes; no other sequence runs into the same text."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big") + raw)
    return state.digest()


def file_hash(path: Path) -> str:
    """Hash of a file's whole content, remembered by path, size and time of change."""
    stat = path.stat()
    name = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    known = _read_hashes()
    if name not in known:
        state = hashlib.blake2b(digest_size=16)
        with path.open("rb") as file:
            while block := file.read(1 << 24):
                state.update(block)
        known[name] = state.hexdigest()
        _write_hashes(known)
    return known[name]


def files_hash(folder: Path) -> str:
    """Hash of the model files of a folder, or of one file."""
    if folder.is_file():
        return file_hash(folder)
    found = sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)})
    return digest(f"{path.name}|{file_hash(path)}" for path in found if path.is_file()).hex()


def weights_hash(model: Any) -> str | None:
    """Hash of an even sample of every weight tensor, and of the tensors' names and shapes."""
    if not hasattr(model, "state_dict"):
        return None

    def pieces() -> Iterable[str]:
        for name, tensor in sorted(model.state_dict().items()):
            flat = tensor.detach().reshape(-1)
            sample = flat[:: max(1, flat.numel() // _SAMPLED_WEIGHTS)].cpu()
            numbers = sample.float().numpy() if sample.is_floating_point() else sample.numpy()
            yield f"{name}|{tuple(tensor.shape)}|{hashlib.sha256(numbers.tobytes()).hexdigest()}"

    return digest(pieces()).hex()


def _hash_file() -> Path:
    return cache_folder() / "file_hashes.json"


_hashes: dict[str, str] = {}


def _read_hashes() -> dict[str, str]:
    if not _hashes:
        try:
            loaded = json.loads(_hash_file().read_text(encoding="utf-8"))
            _hashes.update({str(key): str(value) for key, value in loaded.items()})
        except (OSError, ValueError, AttributeError):
            log.debug("no remembered file hashes")
    return _hashes


def _write_hashes(known: Mapping[str, str]) -> None:
    # Best effort: without it the files are read again next time.
    path = _hash_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(dict(known)), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        log.debug("file hashes are not remembered: %s", error)
