"""What is learnt about a server while it is used, and how requests follow from it."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmrel_tasks.sampling import Cell

log = logging.getLogger(__name__)

MOST_CHOICES = 128
SEED_BITS = (1 << 31) - 1


@dataclass
class ServerFacts:
    """What has been learnt about a model's server; kept for as long as the model object lives.

    Attributes:
        choices: most choices it gives per request; None until it gave fewer than asked.
        top_logprobs: most candidates per token it gives; None until it refused.
        takes_seed: False once it refused the seed.
        choices_differ: True once the choices of one answer were seen to differ.
        probes: times a request with identical choices was checked and found honest.
        requests: requests answered.
        answered_before: True where an earlier run of the study got answers, which the store has.
        retries: requests sent again.
        runs: runs received.
        tokens: generated tokens, as the server counted them.
    """

    choices: int | None = None
    top_logprobs: int | None = None
    takes_seed: bool = True
    choices_differ: bool = False
    probes: int = 0
    requests: int = 0
    answered_before: bool = False
    retries: int = 0
    runs: int = 0
    tokens: int = 0
    said: set[str] = field(default_factory=set)

    def say_once(self, subject: str, words: str) -> None:
        if subject not in self.said:
            self.said.add(subject)
            log.warning(words)

    def effective_k(self, asked: int) -> int:
        """Candidates per token that the server is asked for."""
        return asked if self.top_logprobs is None else min(asked, self.top_logprobs)


_FACTS: weakref.WeakKeyDictionary[Any, ServerFacts] = weakref.WeakKeyDictionary()


def server_facts(lm: Any) -> ServerFacts:
    """What is known about the model's server, and the counters a progress bar shows."""
    if lm not in _FACTS:
        _FACTS[lm] = ServerFacts()
    return _FACTS[lm]


def request_payload(
    base: Mapping[str, Any], cell: Cell, positions: Sequence[int], facts: ServerFacts
) -> dict[str, Any]:
    """The payload that asks for the runs at `positions` of the cell in one request."""
    payload = dict(base)
    if facts.takes_seed:
        payload["seed"] = cell.seeds[positions[0]] & SEED_BITS
    if len(positions) > 1:
        payload["n"] = len(positions)
    k = facts.effective_k(cell.top_logprobs)
    if k and "messages" in payload:
        payload["logprobs"] = True
        payload["top_logprobs"] = k
    elif k:
        payload["logprobs"] = k
    return payload


def most_choices(cell: Cell, facts: ServerFacts) -> int:
    """Most runs that one request of this cell may ask for."""
    limits = [MOST_CHOICES, cell.options.get("max_n"), facts.choices]
    return max(min(int(limit) for limit in limits if limit is not None), 1)


def adapt(
    facts: ServerFacts, name: str, words: str, payload: Mapping[str, Any], asked_k: int
) -> bool:
    """Ask for less of a field that the server refused; False when there is nothing less to ask.

    Requests that were under way when the field was lowered come here too: they see that the facts
    have changed already and are simply sent again.
    """
    if name in ("n", "best_of"):
        sent = int(payload["n"]) if payload.get("n") else 1
        if sent <= 1:
            return False
        if facts.choices is None or facts.choices >= sent:
            facts.choices = _limit_in(words, sent) or (sent // 2 if sent > 8 else 1)
            facts.say_once("n", f"the server takes n up to {facts.choices} per request: {words}")
        return True
    if name == "seed":
        facts.takes_seed = False
        facts.say_once(
            "seed", f"the server takes no seed, so runs cannot be drawn again alike: {words}"
        )
        return True
    value = payload.get("top_logprobs", payload.get("logprobs"))
    sent = int(value) if isinstance(value, int) and not isinstance(value, bool) else 0
    if sent == 0:
        return False
    current = facts.effective_k(asked_k)
    if current >= sent:
        unable = "support" in words or "not allowed" in words or "unknown" in words.lower()
        lower = next((step for step in (20, 5) if step < sent), 0)
        facts.top_logprobs = _limit_in(words, sent) or (0 if unable else lower)
        tail = (
            f"capturing {facts.top_logprobs} instead of {asked_k}"
            if facts.top_logprobs
            else "internal metrics are left out"
        )
        facts.say_once(
            f"top_logprobs {facts.top_logprobs}", f"the server limits logprobs ({words}); {tail}"
        )
    return True


def _limit_in(words: str, sent: int) -> int | None:
    """The largest number in the server's words that is below what was sent, its likely limit."""
    status, _, rest = words.partition(":")
    text = rest if status.strip().isdigit() else words
    numbers = [int(number) for number in re.findall(r"(?<![\w.])\d{1,5}(?![\w])", text)]
    below = [number for number in numbers if 1 <= number < sent]
    return max(below) if below else None
