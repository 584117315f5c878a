"""What an OpenAI-compatible server answers, read into runs. No network in here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.models.api_models import LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling.summary import Position, largest, number, positions_before, summarise

_FINISH = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "refusal",
}

# What broken log-probabilities raise where they are read; servers differ too much to list shapes.
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, OverflowError)


class BrokenAnswer(ValueError):
    """The server reports success, but what it sent holds no choices with a text."""


@dataclass(frozen=True)
class Reading:
    """How the choices of a cell are read.

    Attributes:
        until: every stop string of the task, also those beyond the four that chat APIs take.
        think_end_token: the text after it is the answer, as in the harness.
        top_logprobs: candidates per token that were asked for; 0 for none.
        first_tokens: whether the candidates of the first token are kept.
    """

    until: tuple[str, ...] = ()
    think_end_token: str | None = None
    top_logprobs: int = 0
    first_tokens: bool = False


def choices_of(body: Any) -> list[Mapping[str, Any]]:
    """The choices of an answer, in the order of their index.

    Raises:
        BrokenAnswer: when there is none, or one has no text; quotes the server's error, if any.
    """
    if not isinstance(body, Mapping):
        raise BrokenAnswer(f"the answer is {type(body).__name__}, not an object")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        error = body.get("error")
        if error:
            words = error.get("message", error) if isinstance(error, Mapping) else error
            raise BrokenAnswer(f"the answer holds an error instead of choices: {words}")
        raise BrokenAnswer("the answer holds no choices")
    if not all(isinstance(choice, Mapping) for choice in choices):
        raise BrokenAnswer("a choice of the answer is no object")
    for choice in choices:
        _check_text(choice)
    numbered = [(choice.get("index", place), place, choice) for place, choice in enumerate(choices)]
    if all(isinstance(index, int) for index, _, _ in numbered):
        numbered.sort(key=lambda one: one[:2])
    return [choice for _, _, choice in numbered]


def _check_text(choice: Mapping[str, Any]) -> None:
    # Without this a wrong protocol would pass for a model that answers nothing.
    message = choice.get("message")
    if isinstance(message, Mapping):
        content = message.get("content")
    elif "text" in choice:
        content = choice["text"]
    elif message is None:
        raise BrokenAnswer("a choice of the answer holds neither a message nor a text")
    else:
        raise BrokenAnswer(f"the message of a choice is {type(message).__name__}, not an object")
    parts = isinstance(content, list) and all(isinstance(part, Mapping) for part in content)
    if not (content is None or isinstance(content, str) or parts):
        raise BrokenAnswer(f"the content of a choice is {type(content).__name__}, not text")


def completion_tokens(body: Mapping[str, Any]) -> int | None:
    """Generated tokens of the whole answer, from ``usage``."""
    usage = body.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and count >= 0 else None


def run_of(
    choice: Mapping[str, Any],
    reading: Reading,
    seed: int | None,
    tokens: int | None = None,
    say_once: Callable[[str, str], None] = lambda subject, words: None,
) -> Run:
    """One choice as a run.

    ``content: null`` becomes the harness's placeholder (empty by default), a refusal keeps the
    server's words with finish reason ``"refusal"``, a filtered answer keeps what was let through
    with ``"content_filter"``. Reasoning content is never part of the text. Log-probabilities that
    cannot be read cost the captured numbers, never the text.

    Args:
        choice: one entry of ``choices``, of the completions or the chat format.
        reading: how to read it.
        seed: the run's own seed.
        tokens: generated tokens of this choice, where the server counted them.
        say_once: told (subject, words) when the log-probabilities cannot be read.
    """
    raw, finish = _text_and_finish(choice)
    kept, text = _cut(raw, reading)
    if len(kept) < len(raw) and finish in (None, "length"):
        # The stop string came before the limit did: what follows it was never wanted.
        finish = "stop"
    fields: dict[str, Any] = {"tokens": tokens if len(kept) == len(raw) else None}
    try:
        fields |= _captured(choice, reading, kept)
    except _UNREADABLE as error:
        say_once(
            "unreadable logprobs",
            "some log-probabilities of the server cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}); internal metrics of these runs are "
            "left out",
        )
    return Run(text, Capture(seed=seed, finish_reason=finish, **fields))


def _captured(choice: Mapping[str, Any], reading: Reading, kept: str) -> dict[str, Any]:
    """What the log-probabilities of a choice say; raises one of `_UNREADABLE` on broken ones."""
    fields: dict[str, Any] = {}
    positions = _positions(choice, reading.top_logprobs)
    if positions is not None:
        fields = summarise(positions_before(positions, kept.encode("utf-8", "surrogatepass")))
    if reading.first_tokens:
        fields["first_tokens"] = first_tokens(choice)
    return fields


def has_logprobs(choice: Mapping[str, Any]) -> bool:
    """Whether the server sent log-probabilities with this choice."""
    given = choice.get("logprobs")
    return isinstance(given, Mapping) and any(
        isinstance(given.get(name), list) for name in ("content", "tokens")
    )


def first_tokens(choice: Mapping[str, Any]) -> list[tuple[str, float]] | None:
    """Texts and log-probabilities of the most probable first tokens; None without any.

    The token that was generated is one of them, whether or not the server lists it.
    """
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping):
        return None
    found: dict[str, float] = {}
    if isinstance(logprobs.get("content"), list):
        for entry in logprobs["content"][:1]:
            for one in [entry, *(entry.get("top_logprobs") or [])]:
                _add(found, one.get("token"), one.get("logprob"))
    elif isinstance(logprobs.get("tokens"), list):
        for token, value in zip(
            logprobs["tokens"][:1], logprobs.get("token_logprobs") or [], strict=False
        ):
            _add(found, token, value)
        for here in (logprobs.get("top_logprobs") or [])[:1]:
            for token, value in (here or {}).items():
                _add(found, token, value)
    else:
        return None
    return sorted(found.items(), key=lambda one: -one[1])


def _add(found: dict[str, float], token: Any, logprob: Any) -> None:
    value = number(logprob)
    if isinstance(token, str) and value is not None:
        found[token] = value


def _text_and_finish(choice: Mapping[str, Any]) -> tuple[str, str | None]:
    reason = choice.get("finish_reason")
    finish = _FINISH.get(reason, "stop") if isinstance(reason, str) else None
    message = choice.get("message")
    if not isinstance(message, Mapping):
        content, refusal = choice.get("text"), None
    else:
        content, refusal = message.get("content"), message.get("refusal")
    text = _plain(content)
    if refusal:
        finish = "refusal"
        text = text if text else _plain(refusal)
    if text is None:
        text = "" if finish == "content_filter" else LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER
    return text, finish


def _plain(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        # Some servers answer in parts; only text parts are text.
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return str(content)


def _cut(raw: str, reading: Reading) -> tuple[str, str]:
    """The part of the generation that counts, and the answer text in it."""
    rest = raw
    if reading.think_end_token:
        rest = raw.split(reading.think_end_token)[-1].lstrip()
    text = rest
    for stop in reading.until:
        if stop:
            text = text.split(stop)[0]
    return raw[: len(raw) - len(rest) + len(text)], text


def _positions(choice: Mapping[str, Any], k: int) -> list[Position] | None:
    logprobs = choice.get("logprobs")
    if not k or not isinstance(logprobs, Mapping):
        return None
    if isinstance(logprobs.get("content"), list):
        return [_chat_position(entry, k) for entry in logprobs["content"]]
    if isinstance(logprobs.get("tokens"), list):
        return _completion_positions(logprobs, k)
    return None


def _chat_position(entry: Mapping[str, Any], k: int) -> Position:
    top = entry.get("top_logprobs") or []
    # Two tokens may print alike; their bytes or ids tell them apart.
    by_identity = {_identity(one): one.get("logprob") for one in top if isinstance(one, Mapping)}
    values = list(by_identity.values())
    return Position(_piece(entry), number(entry.get("logprob")), largest(values, k))


def _completion_positions(logprobs: Mapping[str, Any], k: int) -> list[Position]:
    tokens = logprobs["tokens"]
    chosen = logprobs.get("token_logprobs") or []
    top = logprobs.get("top_logprobs") or []
    positions = []
    for index, token in enumerate(tokens):
        here = top[index] if index < len(top) else None
        values = list(here.values()) if isinstance(here, Mapping) else []
        logprob = number(chosen[index]) if index < len(chosen) else None
        positions.append(Position(_token_bytes(token), logprob, largest(values, k)))
    return positions


def _identity(entry: Mapping[str, Any]) -> Any:
    for name in ("token_id", "id"):
        if isinstance(entry.get(name), int):
            return entry[name]
    if isinstance(entry.get("bytes"), list):
        return bytes(entry["bytes"])
    return entry.get("token")


def _piece(entry: Mapping[str, Any]) -> bytes:
    if isinstance(entry.get("bytes"), list):
        return bytes(entry["bytes"])
    return _token_bytes(entry.get("token"))


def _token_bytes(token: Any) -> bytes:
    text = token if isinstance(token, str) else ""
    if text.startswith("bytes:"):
        # Pieces of a character are written "bytes:\xe2\x80".
        try:
            return text[6:].encode("latin-1").decode("unicode_escape").encode("latin-1")
        except (UnicodeDecodeError, UnicodeEncodeError):
            return text.encode("utf-8", "surrogatepass")
    return text.encode("utf-8", "surrogatepass")


def all_alike(texts: Sequence[str]) -> bool:
    """True for two or more identical, non-empty texts."""
    return len(texts) > 1 and bool(texts[0]) and len(set(texts)) == 1
