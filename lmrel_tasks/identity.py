"""Who the model is, and the key under which a run is kept.

Whatever changes the draws is in the key: the model and its weights, the prompt, the generation
settings, the run's seed, item, condition and index, and what is captured. Batch size, concurrency,
device and the number of processes are not. API keys and headers never are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from lmrel_tasks.file_hashes import digest, files_hash, weights_hash

# Query parameters of an address that are no secret.
_PLAIN_PARAMETERS = frozenset({"api-version", "api_version", "deployment", "version"})
# Settings of the harness's model objects that change prompt or answer.
_SETTINGS = (
    "add_bos_token",
    "truncation",
    "truncation_side",
    "think_end_token",
    "enable_thinking",
    "backend",
    "tokenized_requests",
)
# What of vLLM's engine arguments bears on what is generated.
_ENGINE_ARGS = (
    "model",
    "revision",
    "dtype",
    "quantization",
    "tokenizer",
    "tokenizer_revision",
    "max_model_len",
    "logprobs_mode",
    "load_format",
    "hf_overrides",
    "rope_scaling",
)


def model_identity(lm: Any) -> dict[str, Any]:
    """What tells a harness model from others, as plain JSON values.

    For APIs the address (without credentials) and the model's name; for local models the name or
    path, revision, dtype, quantisation, adapter and a hash of the files; for others the class and
    whatever names it.
    """
    inner = _unwrapped(lm)
    identity: dict[str, Any] = {"class": _class_name(inner)}
    if hasattr(inner, "base_url") and hasattr(inner, "_create_payload"):
        identity.update(_api(inner))
    elif isinstance(getattr(inner, "model_args", None), Mapping):
        identity.update(_engine(inner))
    elif hasattr(inner, "pretrained"):
        identity.update(_transformers(inner))
    else:
        identity.update(_other(inner))
    for name in _SETTINGS:
        value = getattr(inner, name, None)
        if value is not None and value is not False:
            identity[name] = _plain(value)
    return identity


def cell_key(
    model: Mapping[str, Any],
    prompt: str,
    generation: Mapping[str, Any],
    item: str,
    condition: str,
    capture: Mapping[str, Any],
) -> bytes:
    """The part of a key that the runs of a cell share.

    Args:
        model: from `model_identity`.
        prompt: the text, or the harness's ``JsonChatStr``.
        generation: the generation settings, merged.
        item: stable identity of the document.
        condition: name of the condition.
        capture: capture settings, e.g. ``{"top_logprobs": 30, "logprobs": "raw"}``.

    Raises:
        TypeError: for a setting that is no plain value.
    """
    kind = "text" if isinstance(prompt, str) else "chat"
    words = prompt if isinstance(prompt, str) else getattr(prompt, "prompt", prompt)
    parts = [_canonical(model), kind, words, _canonical(generation)]
    parts += [item, condition, _canonical(capture)]
    return digest(str(part) for part in parts)


def run_key(cell: bytes, seed: int, run: int) -> bytes:
    """The key of one run of a cell: 16 bytes."""
    return hashlib.blake2b(cell + f"\x1f{seed}\x1f{run}".encode(), digest_size=16).digest()


def plain_url(url: str | None) -> str | None:
    """An address without user, password or secret query parameters."""
    if not url:
        return None
    parts = urlsplit(str(url))
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port:
        host = f"{host}:{parts.port}"
    query = [(k, v) for k, v in parse_qsl(parts.query) if k.lower() in _PLAIN_PARAMETERS]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))


def _unwrapped(lm: Any) -> Any:
    # The harness's cache wrapper forwards everything; the model inside is what counts.
    inner = vars(lm).get("lm") if hasattr(lm, "__dict__") else None
    return inner if inner is not None and hasattr(inner, "generate_until") else lm


def _class_name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _api(lm: Any) -> dict[str, Any]:
    identity = {"base_url": plain_url(lm.base_url), "model": _plain(getattr(lm, "model", None))}
    if getattr(lm, "_eos_string", None):
        identity["eos_string"] = lm._eos_string
    if getattr(lm, "tokenized_requests", False):
        tokenizer = getattr(lm, "tokenizer", None)
        identity["tokenizer"] = _plain(getattr(tokenizer, "name_or_path", None))
        identity["max_length"] = lm.max_length
    return identity


def _engine(lm: Any) -> dict[str, Any]:
    args = lm.model_args
    identity = {name: _plain(args[name]) for name in _ENGINE_ARGS if args.get(name) is not None}
    lora = getattr(lm, "lora_request", None)
    adapter = getattr(lora, "lora_path", None) or getattr(lora, "lora_local_path", None)
    identity.update(_files(model=args.get("model"), adapter=adapter))
    return identity


def _transformers(lm: Any) -> dict[str, Any]:
    model = getattr(lm, "model", None)
    config = getattr(model, "config", None)
    quantisation = getattr(config, "quantization_config", None)
    if quantisation is not None and hasattr(quantisation, "to_dict"):
        quantisation = quantisation.to_dict()
    tokenizer = getattr(lm, "tokenizer", None)
    identity = {
        "name": lm.pretrained if isinstance(lm.pretrained, str) else _config_name(config),
        "revision": getattr(lm, "revision", None),
        "commit": getattr(config, "_commit_hash", None),
        "dtype": str(getattr(model, "dtype", None)),
        "quantisation": _plain(quantisation) if quantisation is not None else None,
        "adapter": getattr(lm, "peft", None),
        "delta": getattr(lm, "delta", None),
        "tokenizer": getattr(tokenizer, "name_or_path", None),
        "max_length": getattr(lm, "_max_length", None),
    }
    identity.update(
        _files(model=lm.pretrained, adapter=identity["adapter"], delta=identity["delta"])
    )
    known = "model_hash" in identity or identity["commit"]
    # The model object does not say which GGUF file of a folder it came from.
    if not known or "gguf" in str(quantisation).lower() or _holds_gguf(lm.pretrained):
        identity["weights"] = weights_hash(model)
    return {key: _plain(value) for key, value in identity.items() if value is not None}


def _other(lm: Any) -> dict[str, Any]:
    identity: dict[str, Any] = {}
    for name in ("model", "model_name", "model_id", "engine", "pretrained", "path", "revision"):
        value = getattr(lm, name, None)
        if isinstance(value, (str, int, float)):
            identity[name] = value
    for name in ("base_url", "url"):
        if isinstance(getattr(lm, name, None), str):
            identity[name] = plain_url(getattr(lm, name))
    return identity


def _config_name(config: Any) -> str | None:
    return getattr(config, "_name_or_path", None) or None


def _holds_gguf(path: Any) -> bool:
    return isinstance(path, str) and Path(path).is_dir() and any(Path(path).glob("*.gguf"))


def _files(**paths: Any) -> dict[str, str]:
    hashes = {}
    for name, path in paths.items():
        if isinstance(path, (str, os.PathLike)) and Path(path).expanduser().exists():
            hashes[f"{name}_hash"] = files_hash(Path(path).expanduser())
    return hashes


def _canonical(values: Mapping[str, Any]) -> str:
    """JSON in which equal settings are written alike: sorted keys, 1.0 as 1."""
    return json.dumps(_plain_numbers(values), sort_keys=True, ensure_ascii=False)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain_numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_numbers(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(
        f"a setting is {type(value).__name__} ({value!r}); the store's key takes text, numbers, "
        "lists and mappings"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in sorted(value.items(), key=str)}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return str(value)
