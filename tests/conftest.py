"""Shared fixtures: the real language model of the demo, loaded once per test session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Nothing in the tests may depend on a model hub: the model comes from the package index.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Several test processes share the cores; more threads than cores only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test draws from a store, or leaves runs in one, unless it names its own."""
    monkeypatch.delenv("LMREL_STORE", raising=False)


@pytest.fixture(scope="session")
def smollm_dir() -> Path:
    """Folder with SmolLM2-135M-Instruct as float32 safetensors (downloaded on first use)."""
    from lmrel_tasks.model_files import demo_model

    return demo_model()


@pytest.fixture(scope="session")
def smollm_gguf() -> Path:
    """The same model as the GGUF file it was converted from."""
    from lmrel_tasks.model_files import demo_gguf

    return demo_gguf()


@pytest.fixture(scope="session")
def smollm(smollm_dir: Path):
    """The harness's own `HFLM` around that model: float32, CPU, batch size 8."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(smollm_dir), dtype="float32", device="cpu", batch_size=8)
