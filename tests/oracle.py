"""A sampler written the slow, obvious way: a whole forward pass and a whole sort per token."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


def processors(settings: dict[str, Any]) -> LogitsProcessorList:
    """transformers' processors in the order of ``model.generate``; keys as in generation_kwargs."""
    made = {
        "repetition_penalty": RepetitionPenaltyLogitsProcessor,
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsWarper,
        "min_p": MinPLogitsWarper,
    }
    return LogitsProcessorList(
        make(settings[key]) for key, make in made.items() if settings.get(key)
    )


def logits_after(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).logits[:, -1].float()


def sample(
    model: Any, prompt: list[int], seed: int, count: int, settings: dict[str, Any]
) -> tuple[list[int], float]:
    """``count`` tokens after ``prompt``, and the closest that a draw came to a boundary."""
    # The stream of uniforms itself is tested against the published generator.
    from lmrel_tasks.sampling.draws import uniforms

    ids, closest = list(prompt), 1.0
    for u in uniforms(seed, count):
        scores = processors(settings)(torch.tensor([ids]), logits_after(model, ids))[0]
        order = np.lexsort((np.arange(len(scores)), -scores.numpy()))
        cumulative = np.cumsum(scores.double().softmax(-1).numpy()[order])
        closest = min(closest, float(np.abs(cumulative - u).min()))
        ids.append(int(order[min(np.searchsorted(cumulative, u, side="right"), len(order) - 1)]))
    return ids[len(prompt) :], closest


def reduced(logits: torch.Tensor, k: int) -> tuple[float, float, float]:
    """Entropy in bits, certainty and tail mass of the k most probable tokens of (V,) logits."""
    p = np.sort(logits.double().softmax(-1).numpy())[::-1][:k]
    p = p[p > 0]
    q = p / p.sum()
    bits = float(-(q * np.log2(q)).sum())
    return bits, 1 - bits / np.log2(len(q)) if len(q) > 1 else 1.0, 1 - float(p.sum())
