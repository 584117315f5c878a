"""Decoding many rows over prompts whose keys and values are stored once, not once per row.

The runs of a prompt attend to the same prompt tokens. Their queries are therefore gathered into
one matrix per prompt and multiplied with the prompt's keys and values together; each row's own
tokens are handled row by row; the two partial softmaxes are merged exactly by their maxima and
sums (the split of Juravsky et al. 2024, "Hydragen", arXiv:2402.05099). Compared with a cache that
is copied to every row this reads R times less memory at each step, and prompts of any length sit
in one batch without padding in the rows.

The model's own code runs unchanged: only its attention function is exchanged, through the
interface that `transformers` offers for that. `works_with` tries it on the model at hand before
it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from lm_eval.models.huggingface import HFLM
from torch.nn.functional import pad
from transformers import AttentionInterface, DynamicCache

from lmrel_tasks.sampling.forward import Forward, cache_of

_NAME = "lmrel_shared_prefix"
_BLOCK = 32
# Arguments of an attention function that change its result and are not understood here.
_FOREIGN = ("softcap", "sliding_window", "s_aux", "sinks", "position_bias", "head_mask", "indices")


class SharedPrefix(DynamicCache):
    """Keys and values of several prompts (once each) and of the tokens each row has added.

    Per layer: prompts (P, heads, L, d) with right padding; rows (B, heads, S, d).
    """

    many_prompts = True

    def __init__(self, lm: HFLM) -> None:
        super().__init__()
        self.forward = Forward(lm)
        self.rows = 0
        self.attended = 0
        self._prefix: list[list[torch.Tensor]] = []
        self._suffix: list[list[torch.Tensor]] = []
        self._lengths: list[int] = []
        self._owner: list[int] = []
        self._added: list[int] = []
        self._name = "past_key_values"
        self._plans: dict[torch.device, dict[str, Any]] = {}

    # What the decoder calls.

    @torch.inference_mode()
    def admit(self, prompt: list[int], rows: int) -> torch.Tensor:
        """Prefill a prompt once and add ``rows`` rows; return the (V,) logits after the prompt.

        Raises:
            TypeError: the model's cache is not a plain one; use another decoder.
        """
        logits, out = self.forward(self.forward.ids([prompt]), use_cache=True)
        name, cache = cache_of(out)
        layers = _plain_layers(cache)
        assert name is not None
        self._name = name
        if not self._prefix:
            self._prefix = [[k[:0], v[:0]] for k, v in layers]
            self._suffix = [[k[:0, :, :0], v[:0, :, :0]] for k, v in layers]
        for own, new in zip(self._prefix, layers, strict=True):
            own[:] = [_stack(old, part) for old, part in zip(own, new, strict=True)]
        for own in self._suffix:
            own[:] = [pad(part, (0, 0, 0, 0, 0, 0, 0, rows)) for part in own]
        self._owner += [len(self._lengths)] * rows
        self._lengths.append(len(prompt))
        self._added += [0] * rows
        self.rows += rows
        return logits[0]

    @torch.inference_mode()
    def keep(self, rows: list[int]) -> None:
        """Leave only these rows, in this order, and the prompts that they need."""
        owners = sorted({self._owner[row] for row in rows})
        if len(owners) < len(self._lengths):
            self._lengths = [self._lengths[owner] for owner in owners]
            longest = max(self._lengths, default=0)
            for own in self._prefix:
                own[:] = [part[owners, :, :longest] for part in own]
        self._owner = [owners.index(self._owner[row]) for row in rows]
        self._added = [self._added[row] for row in rows]
        longest = max(self._added, default=0)
        for own in self._suffix:
            own[:] = [part[rows, :, :longest] for part in own]
        self.rows = len(rows)

    @torch.inference_mode()
    def step(self, tokens: list[int]) -> torch.Tensor:
        """Append one token to every row; return the (rows, V) logits after it."""
        self._grow()
        self._plans = {}
        places = [self._lengths[o] + n for o, n in zip(self._owner, self._added, strict=True)]
        forward = self.forward
        with _exchanged(forward.base, self):
            logits, _ = forward(
                forward.ids(tokens)[:, None],
                position_ids=forward.ids(places)[:, None],
                use_cache=True,
                **{self._name: self},
            )
        self._added = [n + 1 for n in self._added]
        return logits

    # What the model calls.

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        plan = self._plan(key_states.device)
        keys, values = self._suffix[layer_idx]
        keys[plan["rows"], :, plan["added"]] = key_states[:, :, 0]
        values[plan["rows"], :, plan["added"]] = value_states[:, :, 0]
        return key_states, value_states

    def attend(self, layer_idx: int, query: torch.Tensor, scaling: float) -> torch.Tensor:
        """(B, query heads, 1, d) queries -> (B, 1, query heads, d) attention outputs."""
        self.attended += 1
        plan = self._plan(query.device)
        rows, query_heads, _, width = query.shape
        prefix_keys, prefix_values = self._prefix[layer_idx]
        keys, values = (part[:, :, : plan["longest"]] for part in self._suffix[layer_idx])
        heads = keys.shape[1]
        queries = query.view(rows, heads, query_heads // heads, width) * scaling
        own = _partial(queries, keys, values, plan["own_mask"])
        shared = _partial(self._to_grid(queries, plan), prefix_keys, prefix_values, plan["mask"])
        merged = _merge(own, tuple(self._from_grid(part, plan) for part in shared))
        return merged.to(query.dtype).reshape(rows, 1, query_heads, -1)

    # Rows of one prompt side by side: (B, heads, g, d) <-> (P, heads, M * g, d).

    def _to_grid(self, queries: torch.Tensor, plan: dict[str, Any]) -> torch.Tensor:
        prompts, most = len(self._lengths), plan["most"]
        _, heads, group, width = queries.shape
        grid = queries.new_zeros(prompts * most, heads, group, width)
        grid[plan["slot"]] = queries
        grid = grid.view(prompts, most, heads, group, width).transpose(1, 2)
        return grid.reshape(prompts, heads, most * group, width)

    def _from_grid(self, part: torch.Tensor, plan: dict[str, Any]) -> torch.Tensor:
        prompts, heads, _, width = part.shape
        split = part.view(prompts, heads, plan["most"], -1, width).transpose(1, 2)
        return split.reshape(prompts * plan["most"], heads, -1, width)[plan["slot"]]

    def _plan(self, device: torch.device) -> dict[str, Any]:
        """Index tensors of this step on ``device`` (a model may be spread over several)."""
        if device not in self._plans:
            counts = [0] * len(self._lengths)
            column = []
            for owner in self._owner:
                column.append(counts[owner])
                counts[owner] += 1
            most = max(counts)
            lengths = torch.tensor(self._lengths, device=device)
            added = torch.tensor(self._added, device=device)
            longest, space = max(self._added) + 1, max(self._lengths)
            past = torch.arange(longest, device=device) > added[:, None]
            padding = torch.arange(space, device=device) >= lengths[:, None]
            slot = [owner * most + c for owner, c in zip(self._owner, column, strict=True)]
            self._plans[device] = {
                "rows": torch.arange(self.rows, device=device),
                "added": added,
                "most": most,
                "longest": longest,
                "slot": torch.tensor(slot, device=device),
                "own_mask": past[:, None, None] if min(self._added) + 1 < longest else None,
                "mask": padding[:, None, None] if min(self._lengths) < space else None,
            }
        return self._plans[device]

    def _grow(self) -> None:
        if max(self._added) >= self._suffix[0][0].shape[2]:
            for own in self._suffix:
                own[:] = [pad(part, (0, 0, 0, _BLOCK)) for part in own]


Partial = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _partial(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
) -> Partial:
    """Unnormalised attention over some of the keys: output, sum of weights, maximum score."""
    scores = (queries @ keys.transpose(-1, -2)).float()
    if mask is not None:
        scores.masked_fill_(mask, float("-inf"))
    top = scores.amax(dim=-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    return (weights.to(values.dtype) @ values).float(), weights.sum(-1, keepdim=True), top


def _merge(a: Partial, b: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Exact attention over the union of two sets of keys, float32."""
    top = torch.maximum(a[2], b[2])
    left, right = (a[2] - top).exp_(), (b[2] - top).exp_()
    return (a[0] * left + b[0] * right) / (a[1] * left + b[1] * right)


def _stack(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    space = max(old.shape[2], new.shape[2])
    return torch.cat([pad(part, (0, 0, 0, space - part.shape[2])) for part in (old, new)])


def _plain_layers(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values per layer of a cache that keeps every token of every layer."""
    layers = getattr(cache, "layers", None)
    if layers is None and hasattr(cache, "key_cache"):
        return list(zip(cache.key_cache, cache.value_cache, strict=True))
    if not layers or any(type(layer).__name__ != "DynamicLayer" for layer in layers):
        raise TypeError("the model's cache is not a plain dynamic cache")
    return [(layer.keys, layer.values) for layer in layers]


# Exchanging the attention function.

_active: SharedPrefix | None = None


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    foreign = [name for name in _FOREIGN if kwargs.get(name) is not None]
    if foreign or attention_mask is not None or _active is None:
        raise TypeError(f"attention with {foreign or 'a mask'} cannot share a prompt")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return _active.attend(module.layer_idx, query, scale), None  # type: ignore[arg-type]


AttentionInterface.register(_NAME, _attention)


@contextmanager
def _exchanged(model: Any, cache: SharedPrefix) -> Iterator[None]:
    global _active
    config = model.config
    before = config._attn_implementation
    config._attn_implementation, _active = _NAME, cache
    try:
        yield
    finally:
        config._attn_implementation, _active = before, None


# Whether it is right for a model.

_verdicts: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def works_with(lm: HFLM) -> bool:
    """Whether this model decodes over shared prompts as it does by itself; tried once.

    Two prompts of different length with two rows of two tokens each: the log-probabilities must
    be those of the model's own forward pass over the same tokens.
    """
    if lm.model not in _verdicts:
        try:
            _verdicts[lm.model] = _agrees(lm)
        except Exception:  # whatever an unusual architecture raises, its own cache serves it
            _verdicts[lm.model] = False
    return _verdicts[lm.model]


def _agrees(lm: HFLM) -> bool:
    shared = SharedPrefix(lm)
    size = lm.model.get_input_embeddings().weight.shape[0]
    # Ids all over the vocabulary: attention over equal tokens would be right whatever it weighs.
    ids = [(7919 * i + 104729) % size for i in range(41)]
    prompts, continuations = [ids[:24], ids[24:33]], [ids[33:37], ids[37:]]
    sequences = [list(prompt) for prompt in prompts for _ in range(2)]
    for prompt in prompts:
        shared.admit(prompt, 2)
    for tokens in continuations:
        logits = shared.step(tokens)
        for sequence, token in zip(sequences, tokens, strict=True):
            sequence.append(token)
    if shared.attended != len(continuations) * len(shared._prefix):
        return False  # some layer attends in its own way, past the exchanged function
    forward = shared.forward
    exact = torch.cat([forward(forward.ids([one]), use_cache=False)[0] for one in sequences])
    exact32 = all(p.dtype == torch.float32 for p in lm.model.parameters())
    exact32 &= lm.mixed_precision_dtype is None
    tolerance = (1e-3 if exact32 else 0.1) * exact.std()
    return bool((logits.log_softmax(-1) - exact.log_softmax(-1)).abs().max() < tolerance)
