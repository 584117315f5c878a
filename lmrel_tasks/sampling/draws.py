"""Drawing tokens: the warped distribution, and inverse-CDF draws from a counter-based generator.

Only the most probable candidates of each row are ever sorted: a draw that falls into them needs
no more, and the few rows that do need more are sorted completely. What is sorted leaves the
device as a (rows, candidates) array and is finished in float64.

**Order.** The cumulative sum runs from the most probable token down, ties by token id. Rounding
of the model's logits (say 1e-6, when another batch size picks another matrix kernel) then moves
the boundary behind the i-th token by about 1e-6 times min(mass before it, mass after it), which
vanishes in the tail. In token-id order each of the thousands of tail boundaries would move by up to
1e-6, and summed over the vocabulary many more draws would change. The price, two nearly tied
tokens that swap places, is rare, because nearly tied tokens are rare where the mass is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Candidates sorted per row: enough that a draw beyond them is rare, few enough to be cheap.
_WIDTH = 256
_WIDTH_TOP_K = 64


@dataclass(frozen=True)
class Warp:
    """How logits become the distribution that is drawn from, as in `transformers`.

    Applied in this order: repetition penalty, temperature, top_k, top_p, min_p, each on what
    the one before left.

    Attributes:
        do_sample: False takes the most probable token (after the repetition penalty).
        temperature: positive divisor of the logits.
        top_k: keep the k largest logits and those tied with the k-th; 0 keeps all.
        top_p: keep the fewest most probable tokens whose mass reaches this; 1 keeps all.
        min_p: keep tokens at least this probable relative to the most probable one.
        repetition_penalty: divides positive and multiplies negative logits of tokens that
            stand in the prompt or in the text so far; 1 changes nothing.

    Raises:
        ValueError: a value is out of range; the message names it.
    """

    do_sample: bool = True
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        checks = (
            ("temperature", self.temperature > 0, "be positive (do_sample: false is greedy)"),
            ("top_k", self.top_k >= 0, "be 0 (off) or a positive integer"),
            ("top_p", 0 < self.top_p <= 1, "be in (0, 1]"),
            ("min_p", 0 <= self.min_p <= 1, "be in [0, 1]"),
            ("repetition_penalty", self.repetition_penalty > 0, "be positive"),
        )
        for name, valid, rule in checks:
            if not valid:
                raise ValueError(
                    f"generation setting {name} must {rule}, got {getattr(self, name)}"
                )

    @property
    def truncates(self) -> bool:
        """Whether some tokens are removed from the distribution."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


@dataclass(frozen=True)
class Ranked:
    """The largest scores of each row, largest first, ties by token id.

    Attributes:
        scores: (rows, width) float32.
        ids: (rows, width) token ids.
        vocabulary: number of scores the rows had.
    """

    scores: NDArray[np.float32]
    ids: IntArray
    vocabulary: int

    @property
    def complete(self) -> bool:
        return self.scores.shape[1] >= self.vocabulary


@dataclass(frozen=True)
class Drawn:
    """One drawn token per row.

    Attributes:
        ids: (rows,) token ids.
        logprobs: (rows,) log-probability of the drawn token under the warped distribution.
        top: (rows, keep) largest log-probabilities of the warped distribution, -inf where
            fewer tokens are possible.
    """

    ids: IntArray
    logprobs: FloatArray
    top: FloatArray


def uniforms(seed: int, count: int) -> FloatArray:
    """The first ``count`` draws of a run: (count,) doubles in [0, 1), the t-th from (seed, t).

    Philox4x64-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") with the
    seed as its key; each 64-bit word gives its upper 53 bits.
    """
    words = np.random.Philox(key=seed).random_raw(count)
    return (np.asarray(words, dtype=np.uint64) >> np.uint64(11)) * 2.0**-53


def penalise(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Repetition penalty (Keskar et al. 2019): (rows, V) logits, (rows, V) bool of tokens seen."""
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def width_for(warp: Warp, keep: int) -> int:
    """How many candidates to rank so that nearly every draw and ``keep`` values are covered."""
    if not warp.do_sample:
        return max(keep, 1)
    # One more than top_k shows whether others tie with the k-th.
    wanted = max(_WIDTH_TOP_K, warp.top_k + 1) if warp.top_k else _WIDTH
    return max(wanted, keep)


def rank(scores: torch.Tensor, width: int) -> Ranked:
    """The ``width`` largest of each row of (rows, V) float32 scores.

    Raises:
        FloatingPointError: a score is NaN or +inf, or a row has no finite score.
    """
    vocabulary = scores.shape[-1]
    if width < vocabulary:
        largest, places = torch.topk(scores, width, dim=-1)
    else:
        largest, places = torch.sort(scores, dim=-1, descending=True, stable=True)
    values, ids = largest.cpu().numpy(), places.cpu().numpy()
    if not np.isfinite(values[:, 0]).all():
        raise FloatingPointError(
            "the model returned logits that are not finite: try another dtype (bfloat16 or "
            "float32 instead of float16)"
        )
    if width < vocabulary:
        # topk leaves ties in any order.
        order = np.lexsort((ids, -values), axis=-1)
        values = np.take_along_axis(values, order, axis=-1)
        ids = np.take_along_axis(ids, order, axis=-1)
    return Ranked(values, ids, vocabulary)


def draw(scores: torch.Tensor, ranked: Ranked, u: FloatArray, warp: Warp, keep: int = 0) -> Drawn:
    """Draw one token per row by inverting the warped distribution's cumulative sum.

    Args:
        scores: (rows, V) float32 logits, after `penalise`; (1, V) if all rows have the same.
        ranked: `rank` of them, at least ``keep`` wide.
        u: (rows,) uniforms in [0, 1).
        warp: the distribution.
        keep: how many log-probabilities of it to return per row.
    """
    rows = len(u)
    if not warp.do_sample:
        return _greedy(scores, rows, keep)
    logp, open_end = _warped(scores, ranked, warp)
    cumulative = np.cumsum(np.exp(logp), axis=-1)
    # Where all survivors are at hand their sum is 1 up to rounding; make it exactly so.
    target = np.where(open_end, u, u * cumulative[:, -1])
    column = (cumulative <= target[:, None]).sum(axis=-1)
    # Which of the tokens tied with the last candidate were ranked is chance: rank them all.
    sure = (ranked.scores > ranked.scores[:, -1:]).sum(axis=-1)
    again = open_end & (warp.truncates | (column >= sure))
    last = np.isfinite(logp).sum(axis=-1) - 1
    place = (np.arange(rows) if len(scores) > 1 else 0, np.minimum(column, last))
    ids, logprobs = ranked.ids[place], logp[place]
    top = _pad(logp, rows, keep)
    if again.any():
        some = np.flatnonzero(again)
        whole = scores
        if len(scores) > 1:
            whole = scores[torch.as_tensor(some, device=scores.device)]
        rest = draw(whole, rank(whole, ranked.vocabulary), u[some], warp, keep)
        ids[some], logprobs[some], top[some] = rest.ids, rest.logprobs, rest.top
    return Drawn(ids, logprobs, top)


def warped_logprobs(scores: torch.Tensor, warp: Warp) -> FloatArray:
    """The whole distribution that `draw` draws from: (rows, V) log-probabilities by token id."""
    if not warp.do_sample:
        full = np.full(tuple(scores.shape), -np.inf)
        full[np.arange(len(full)), _greedy(scores, len(full), 0).ids] = 0.0
        return full
    ranked = rank(scores, scores.shape[-1])
    logp, _ = _warped(scores, ranked, warp)
    full = np.empty_like(logp)
    np.put_along_axis(full, ranked.ids, logp, axis=-1)
    return full


def _greedy(scores: torch.Tensor, rows: int, keep: int) -> Drawn:
    ids = np.broadcast_to(scores.argmax(dim=-1).cpu().numpy(), rows).copy()
    certain = np.zeros(rows)
    return Drawn(ids, certain, _pad(certain[:, None], rows, keep))


def _pad(logp: FloatArray, rows: int, keep: int) -> FloatArray:
    top = np.full((rows, keep), -np.inf)
    width = min(keep, logp.shape[1])
    top[:, :width] = logp[:, :width]
    return top


def _warped(
    scores: torch.Tensor, ranked: Ranked, warp: Warp
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Log-probabilities of the ranked candidates, -inf where removed, and which rows are open.

    Tokens beyond the candidates of an open row may survive too. Its values are right as they
    stand if the warp does not truncate, because they are normalised over the vocabulary.
    """
    # Divided in float32 as transformers does, so that the same logits are tied.
    scaled = (ranked.scores / np.float32(warp.temperature)).astype(np.float64)
    kept = np.isfinite(scaled)
    if warp.top_k:
        kept &= scaled >= scaled[:, min(warp.top_k, scaled.shape[1]) - 1, None]
    open_end = kept[:, -1] & (not ranked.complete)
    logp = np.where(kept, scaled - scaled[:, :1], -np.inf)
    total = np.log(np.exp(logp).sum(axis=-1))
    if open_end.any():
        every = torch.logsumexp(scores / warp.temperature, dim=-1).cpu().numpy()
        total = np.where(open_end, every - scaled[:, 0], total)
    logp -= total[:, None]
    if warp.top_p < 1:
        probability = np.exp(logp)
        before = np.cumsum(probability, axis=-1) - probability
        open_end = _remove(logp, before >= warp.top_p, open_end)
    if warp.min_p > 0:
        open_end = _remove(logp, logp < logp[:, :1] + np.log(warp.min_p), open_end)
    return logp, open_end


def _remove(
    logp: FloatArray, removed: NDArray[np.bool_], open_end: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Set removed entries to -inf in place, renormalise closed rows; return which stay open."""
    removed[:, 0] = False
    logp[removed] = -np.inf
    open_end = open_end & ~removed[:, -1]
    closed = ~open_end
    logp[closed] -= np.log(np.exp(logp[closed]).sum(axis=-1, keepdims=True))
    return open_end
