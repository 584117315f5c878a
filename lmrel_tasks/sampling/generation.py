"""From the harness's generation settings to what the decoder does, and when a run ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import (
    handle_stop_sequences,
    normalize_gen_kwargs,
    postprocess_generated_text,
)
from transformers import GenerationConfig

from lmrel_tasks.sampling.draws import Warp

# What model.generate uses where neither the call nor the model's generation_config says.
_DEFAULTS: dict[str, Any] = {
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
# Settings that would change what is generated and are not supported, with their neutral values.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0, 0.0),
    "dola_layers": (),
    "constraints": (),
    "force_words_ids": (),
    "guidance_scale": (1, 1.0),
    "sequence_bias": (),
    "bad_words_ids": (),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1, 1.0),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "exponential_decay_length_penalty": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "typical_p": (1, 1.0),
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "top_h": (),
    "watermarking_config": (),
    "stop_strings": (),
    "max_time": (),
    "token_healing": (False,),
}


@dataclass(frozen=True)
class Decoding:
    """How the runs of a cell are decoded.

    Attributes:
        warp: the distribution that is drawn from.
        until: stop strings, the end token's text among them, as in the harness.
        end_ids: token ids that end a run.
        max_new: most tokens to generate.
        max_total: most tokens of prompt and generation together, if the task sets it.
        window: how many of the last tokens can hold any stop string.
    """

    warp: Warp
    until: tuple[str, ...]
    end_ids: frozenset[int]
    max_new: int
    max_total: int | None
    window: int


def decoding(lm: HFLM, generation: Mapping[str, Any]) -> Decoding:
    """Read generation settings as the harness and ``model.generate`` do.

    A setting that is not given has the value of the model's ``generation_config`` and else
    that of `transformers` (so top_k is 50 unless the task or the model says 0).

    Raises:
        ValueError: a setting is out of range, unknown, or not supported; the message names it.
    """
    kwargs: dict[str, Any] = dict(normalize_gen_kwargs(dict(generation), lm.max_gen_toks))
    end_text = lm.tok_decode(lm.eot_token_id, skip_special_tokens=False)
    given = [stop for stop in kwargs.pop("until", None) or [] if stop]
    until = [stop for stop in handle_stop_sequences(given, eos=end_text) if stop]
    max_new = int(kwargs.pop("max_gen_toks"))
    if max_new < 1:
        raise ValueError(f"generation setting max_gen_toks must be at least 1, got {max_new}")
    max_total = kwargs.pop("max_length", None)
    own = getattr(lm.model, "generation_config", None) or GenerationConfig()
    settings = {**own.to_dict(), **kwargs}
    unknown = sorted(name for name in kwargs if name != "do_sample" and not hasattr(own, name))
    if unknown:
        raise ValueError(
            f"generation setting {', '.join(unknown)} is not known to transformers; "
            "remove it from generation_kwargs / --gen_kwargs"
        )
    for name, neutral in _UNSUPPORTED.items():
        value = settings.get(name)
        if value is not None and value not in neutral:
            raise ValueError(
                f"generation setting {name}={value!r} is not supported: runs are independent "
                "draws with temperature, top_k, top_p, min_p and repetition_penalty. Remove it"
                + ("" if name in kwargs else ", or neutralise the model's own default")
            )
    ends = settings.get("eos_token_id")
    ids = {lm.eot_token_id, *(ends if isinstance(ends, Sequence) else [ends])}
    return Decoding(
        warp=_warp(kwargs, settings),
        until=tuple(until),
        end_ids=frozenset(int(i) for i in ids if i is not None),
        max_new=max_new,
        max_total=None if max_total is None else int(max_total),
        # Every token but a special one writes at least one byte; a few more tokens allow for
        # those and for a blank that some tokenizers drop at the start of a text.
        window=max((len(stop.encode()) for stop in until), default=0) + 4,
    )


def _warp(given: Mapping[str, Any], settings: Mapping[str, Any]) -> Warp:
    values: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = settings.get(name)
        if value is None:
            # Given as null switches top_k off; not given at all means the default.
            value = 0 if name == "top_k" and name in given else default
        values[name] = int(value) if name == "top_k" else float(value)
    do_sample = bool(given.get("do_sample"))
    if "temperature" in given and values["temperature"] == 0.0:
        do_sample = False
    if not do_sample:
        # Greedy decoding ignores whatever else is set, as model.generate does.
        return Warp(do_sample=False, repetition_penalty=values["repetition_penalty"])
    return Warp(do_sample=True, **values)


def ended(lm: HFLM, tokens: Sequence[int], most: int, how: Decoding) -> str | None:
    """Why a run with these tokens is over, ``"stop"`` or ``"length"``; None while it is not."""
    if tokens[-1] in how.end_ids:
        return "stop"
    recent = lm.tok_decode(tokens[-how.window :], skip_special_tokens=False)
    if any(stop in recent for stop in how.until):
        return "stop"
    return "length" if len(tokens) >= most else None


def finished_text(lm: HFLM, tokens: Sequence[int], how: Decoding) -> str:
    """The text of a finished run: what the harness makes of the same tokens."""
    marker = lm.think_end_token
    kept = list(tokens)
    thought = isinstance(marker, int) and marker in kept
    if thought:
        kept = kept[len(kept) - kept[::-1].index(marker) :]
    text = lm.tok_decode(kept)
    return postprocess_generated_text(
        generation=text.lstrip() if isinstance(marker, int) else text,
        stop=list(how.until),
        think_end_token=marker if isinstance(marker, str) else None,
    )


def counted(lm: HFLM, tokens: Sequence[int], how: Decoding) -> int:
    """How many tokens of a finished run count: those that begin before the first stop string.

    A token that holds the last characters of the text and the first of the stop string counts;
    the end token, and tokens that lie wholly in the stop string or behind it, do not.
    """
    count = len(tokens)
    while count and tokens[count - 1] in how.end_ids:
        count -= 1
    text = lm.tok_decode(tokens[:count], skip_special_tokens=False)
    starts = [place for stop in how.until if (place := text.find(stop)) >= 0]
    if not starts:
        return count
    kept = text[: min(starts)]
    while count and lm.tok_decode(tokens[: count - 1], skip_special_tokens=False).startswith(kept):
        count -= 1
    return count
