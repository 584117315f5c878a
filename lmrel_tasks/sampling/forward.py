"""The language model's forward pass and its own key/value cache, whatever the architecture."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM


class Forward:
    """Calls ``lm.model`` in inference mode and the harness's precision, for last-token logits."""

    def __init__(self, lm: HFLM) -> None:
        self.lm = lm
        self.model = lm.model
        base = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        self.base = base
        parameters = inspect.signature(base.forward).parameters
        # Logits of a long prompt's every token are large, and nobody reads them.
        names = [name for name in ("logits_to_keep", "num_logits_to_keep") if name in parameters]
        self._last_only: dict[str, Any] = {names[0]: 1} if names else {}

    @torch.inference_mode()
    def __call__(self, ids: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        """(rows, length) ids -> (rows, V) float32 logits of the last position, model output."""
        lm = self.lm
        with torch.autocast(
            device_type=lm.device.type,
            dtype=lm.mixed_precision_dtype,
            enabled=lm.mixed_precision_dtype is not None,
        ):
            out = self.model(input_ids=ids, **self._last_only, **kwargs)
        return out.logits[:, -1].float(), out

    def ids(self, tokens: Any) -> torch.Tensor:
        return torch.as_tensor(tokens, dtype=torch.long, device=self.lm.device)


def cache_of(out: Any) -> tuple[str | None, Any]:
    """The cache in a model's output, and the name under which the model takes it back."""
    for name in ("cache", "past_key_values", "cache_params"):
        value = out.get(name) if hasattr(out, "get") else None
        if value is not None:
            return name, value
    return None, None


class ExpandedCache:
    """The rows of one prompt, with the model's own cache copied to every row.

    Works for any cache that can be reordered (dynamic, sliding-window, hybrid, recurrent); a
    model without one gets its whole sequence again at every step. Rows of one prompt are equally
    long, so neither padding nor a mask is needed.
    """

    many_prompts = False

    def __init__(self, lm: HFLM) -> None:
        self.forward = Forward(lm)
        self.rows = 0
        self._name: str | None = None
        self._cache: Any = None
        self._history: torch.Tensor = torch.empty(0, 0)

    @torch.inference_mode()
    def admit(self, prompt: list[int], rows: int) -> torch.Tensor:
        """Prefill a prompt once and add ``rows`` rows; return the (V,) logits after the prompt."""
        ids = self.forward.ids([prompt])
        logits, out = self.forward(ids, use_cache=True)
        self._name, self._cache = cache_of(out)
        if not hasattr(self._cache, "reorder_cache"):
            self._name, self._cache = None, None
        self.rows = rows
        self._history = ids.expand(rows, -1)
        if self._cache is not None and rows != 1:
            self._cache.reorder_cache(self.forward.ids([0] * rows))
        return logits[0]

    @torch.inference_mode()
    def keep(self, rows: list[int]) -> None:
        """Leave only these rows, in this order."""
        index = self.forward.ids(rows)
        self.rows = len(rows)
        self._history = self._history[index]
        if not rows:
            self._cache = None
        elif self._cache is not None:
            self._cache.reorder_cache(index)

    @torch.inference_mode()
    def step(self, tokens: list[int]) -> torch.Tensor:
        """Append one token to every row; return the (rows, V) logits after it."""
        ids = self.forward.ids(tokens)[:, None]
        self._history = torch.cat([self._history, ids], dim=1)
        if self._name is None:
            return self.forward(self._history, use_cache=False)[0]
        logits, out = self.forward(ids, use_cache=True, **{self._name: self._cache})
        self._cache = cache_of(out)[1]
        return logits
