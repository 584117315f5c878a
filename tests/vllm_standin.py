"""A stand-in for vLLM's offline API: its parameter names and its refusals, no model.

vLLM needs a GPU and is not installed for the tests. What is here follows its published source
(``vllm/sampling_params.py``, ``vllm/outputs.py``, ``vllm/logprobs.py``, ``vllm/entrypoints/llm.py``
of version 0.11 and later): the fields of SamplingParams in full, what its checks refuse, the
keyword arguments of ``LLM.generate``, the fields of its outputs. Texts are drawn from the seed,
letter by letter, from a fixed distribution.
"""

from __future__ import annotations

import math
import random
import sys
import types
from dataclasses import dataclass, field
from typing import Any

EOS = 0
ALPHABET = "abcdefg \n"
VERSION = "0.11.0"


@dataclass
class SamplingParams:
    """The fields that vLLM takes, with its defaults; any other is a TypeError there as here."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    truncate_prompt_tokens: int | None = None
    structured_outputs: Any = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}.")
        if self.temperature < 0 or not math.isfinite(self.temperature):
            raise ValueError(f"temperature must be non-negative, got {self.temperature}.")
        if self.temperature < 1e-5 and self.n > 1:
            raise ValueError(f"n must be 1 when using greedy sampling, got {self.n}.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}.")
        if self.logprobs is not None and self.logprobs != -1 and self.logprobs < 0:
            raise ValueError(f"logprobs must be non-negative or -1, got {self.logprobs}.")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise ValueError("the seed does not fit 64 bits")
        self.stop = [self.stop] if isinstance(self.stop, str) else list(self.stop or [])
        if any(not stop for stop in self.stop):
            raise ValueError("stop cannot contain an empty string.")


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    routed_experts: Any = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    lora_request: Any = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: Any
    outputs: list[CompletionOutput]
    finished: bool = True


class Tokenizer:
    """One token per letter; 0 is the end."""

    eos_token_id, eos_token, bos_token_id, name_or_path = EOS, "<eos>", None, "letters"
    pad_token, pad_token_id, unk_token = "<eos>", EOS, None

    def __call__(self, texts: list[str], **_: Any) -> Any:
        return types.SimpleNamespace(input_ids=[[ord(letter) for letter in text] for text in texts])

    def decode(self, tokens: int | list[int]) -> str:
        ids = [tokens] if isinstance(tokens, int) else tokens
        return "".join("<eos>" if token == EOS else chr(token) for token in ids)


CANDIDATES = [EOS, *(ord(letter) for letter in ALPHABET)]
WEIGHTS = [0.05, *[0.95 / len(ALPHABET)] * len(ALPHABET)]


def draw(prompt: list[int], seed: int | None, most: int) -> list[int]:
    """The tokens of a request: a function of the prompt and the seed."""
    rng = random.Random(f"{prompt}|{seed}")
    tokens: list[int] = []
    while len(tokens) < most and EOS not in tokens:
        tokens.append(rng.choices(CANDIDATES, WEIGHTS)[0])
    return tokens


@dataclass
class LLM:
    """``vllm.LLM`` with the engine arguments that the harness passes."""

    model: str
    max_logprobs: int = 20
    max_model_len: int | None = None
    logprobs_mode: str = "raw_logprobs"
    revision: str | None = None
    dtype: str = "auto"
    tokenizer: str | None = None
    tokenizer_mode: str = "auto"
    tokenizer_revision: str | None = None
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    max_num_seqs: int | None = None
    quantization: str | None = None
    seed: int = 0
    enable_lora: bool = False
    max_lora_rank: int = 16
    calls: list[list[SamplingParams]] = field(default_factory=list)
    abort: bool = False

    def __post_init__(self) -> None:
        config = types.SimpleNamespace(max_model_len=self.max_model_len or 2048)
        self.llm_engine = types.SimpleNamespace(model_config=config)

    def generate(
        self,
        prompts: Any,
        sampling_params: Any = None,
        *,
        use_tqdm: bool = True,
        lora_request: Any = None,
        priority: list[int] | None = None,
    ) -> list[RequestOutput]:
        if len(prompts) != len(sampling_params):
            raise ValueError("The lengths of prompts and params must be the same.")
        self.calls.append(list(sampling_params))
        pairs = zip(prompts, sampling_params, strict=True)
        return [self._one(str(i), prompt, params) for i, (prompt, params) in enumerate(pairs)]

    def _one(self, name: str, prompt: dict[str, Any], params: SamplingParams) -> RequestOutput:
        k = params.logprobs or 0
        if k > self.max_logprobs:
            raise ValueError(
                f"Requested sample logprobs of {k}, which is greater than max allowed: "
                f"{self.max_logprobs}"
            )
        tokens = draw(prompt["prompt_token_ids"], params.seed, params.max_tokens or 16)
        text, used, finish = "", [], "length"
        for token in tokens:
            used.append(token)
            if token == EOS:
                finish = "stop"
                break
            text += chr(token)
            ends = [text.find(stop) for stop in params.stop or [] if stop in text]
            if ends:
                text, finish = text[: min(ends)], "stop"
                break
        finish = "abort" if self.abort else finish
        logprobs = [self._candidates(token, k) for token in used] if k else None
        output = CompletionOutput(0, text, used, None, logprobs, finish_reason=finish)
        return RequestOutput(name, None, prompt["prompt_token_ids"], None, [output])

    def _candidates(self, chosen: int, k: int) -> dict[int, Logprob]:
        ranked = sorted(zip(WEIGHTS, CANDIDATES, strict=True), key=lambda one: (-one[0], one[1]))
        found = {}
        for rank, (weight, token) in enumerate(ranked, start=1):
            if rank <= k or token == chosen:  # the chosen token comes on top of the k best
                found[token] = Logprob(math.log(weight), rank, Tokenizer().decode(token))
        return found


def install(monkeypatch: Any) -> types.ModuleType:
    """Put the stand-in where ``import vllm`` finds it."""
    import importlib.metadata

    def module(name: str, **content: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__spec__ = importlib.machinery.ModuleSpec(name, None)
        made.__path__ = []  # type: ignore[attr-defined]
        for key, value in content.items():
            setattr(made, key, value)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    def tokens_prompt(**content: Any) -> dict[str, Any]:
        return content

    top = module("vllm", LLM=LLM, SamplingParams=SamplingParams, TokensPrompt=tokens_prompt)
    module("vllm.lora")
    module("vllm.lora.request", LoRARequest=type("LoRARequest", (), {}))
    module("vllm.tokenizers", get_tokenizer=lambda *_, **__: Tokenizer())
    module("vllm.renderers")
    module("vllm.renderers.hf", resolve_chat_template=lambda **_: None)
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: VERSION if name == "vllm" else real(name)
    )
    return top
