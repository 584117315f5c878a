"""One request to an OpenAI-compatible server: what is retried, what stops, what may be adapted."""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import tenacity

from lmrel_tasks.sampling.api_parse import BrokenAnswer, choices_of

RETRIED = frozenset({408, 409, 425, 429})
# Fields of the payload that a server may refuse without the study being wrong.
ADAPTABLE = ("top_logprobs", "logprobs", "best_of", "n", "seed")
LONGEST_RETRY_AFTER = 3600.0
# Seconds of waiting that are said: a study that stands still looks like one that hangs.
LONG_WAIT = 60.0


class ApiError(RuntimeError):
    """The server refuses the request as it is; asking again would not help."""


class Temporary(Exception):
    """The request may work if it is sent again.

    Attributes:
        retry_after: seconds that the server asked to wait.
        unreachable: nothing answered at the address.
    """

    def __init__(self, words: str, retry_after: float = 0.0, unreachable: bool = False) -> None:
        super().__init__(words)
        self.retry_after = retry_after
        self.unreachable = unreachable


class FieldRefused(Exception):
    """The server names a field that it does not take.

    Attributes:
        name: the field, one of `ADAPTABLE`.
        words: the server's words.
    """

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name
        self.words = words


class Filtered(Exception):
    """The server's content filter refused the prompt."""


class TooLong(Exception):
    """This prompt does not fit the model's context; others may."""


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff; the upper half of each wait is random. In seconds."""

    first: float = 0.5
    longest: float = 30.0


BACKOFF = Backoff()


@dataclass
class Endpoint:
    """Where and how to post.

    Attributes:
        url: the full address, as the harness's ``base_url``.
        headers: sent with every request and kept out of every message.
        attempts: tries per request in all (the harness's ``max_retries``).
        timeout: seconds per try.
        concurrent: most requests at once.
        verify: certificate check, or the path of a CA file.
        backoff: waits between tries.
        on_retry: called once per retry.
        say_once: told (subject, words) of what the user should know.
    """

    url: str
    headers: Mapping[str, str]
    attempts: int = 3
    timeout: float = 300.0
    concurrent: int = 1
    verify: bool | str = True
    backoff: Backoff = field(default_factory=lambda: BACKOFF)
    on_retry: Callable[[], None] = lambda: None
    say_once: Callable[[str, str], None] = lambda subject, words: None

    def session(self) -> aiohttp.ClientSession:
        """A session for the running loop; close it."""
        verify: Any = self.verify
        if isinstance(verify, str):
            verify = ssl.create_default_context(cafile=verify)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.concurrent, ssl=verify),
            timeout=aiohttp.ClientTimeout(total=self.timeout),
        )

    @cached_property
    def proxy(self) -> str | None:
        """The environment's proxy for this address, as ``requests`` would choose it."""
        parts = urlsplit(self.url)
        if not parts.hostname or proxy_bypass(parts.hostname):
            return None
        return getproxies().get(parts.scheme)

    def conceal(self, words: str) -> str:
        """`words` without any value of the headers, for a server that echoes them."""
        for value in self.headers.values():
            for secret in (str(value), str(value).removeprefix("Bearer ")):
                if len(secret) > 5:
                    words = words.replace(secret, "***")
        return words


class Gate:
    """Shared by the workers of a study: one pause for all after a 429, and the order to stop."""

    def __init__(self) -> None:
        self.open_at = 0.0
        self.stopping = asyncio.Event()

    def pause(self, seconds: float) -> None:
        self.open_at = max(self.open_at, time.monotonic() + seconds)

    async def wait(self) -> None:
        while (left := self.open_at - time.monotonic()) > 0 and not self.stopping.is_set():
            await self.sleep(left)

    async def sleep(self, seconds: float) -> None:
        # Wakes at once when the study stops.
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except asyncio.TimeoutError:
            return


async def post(
    session: aiohttp.ClientSession, endpoint: Endpoint, gate: Gate, payload: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The server's answer to `payload`, which holds at least one choice.

    Raises:
        Temporary: after the last try.
        ApiError, FieldRefused, Filtered, TooLong: at once.
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, Temporary) else 0.0
        reach = endpoint.backoff.first * 2.0 ** (state.attempt_number - 1)
        return asked + min(endpoint.backoff.longest, reach) * random.uniform(0.5, 1.0)

    def stop(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= max(endpoint.attempts, 1) or gate.stopping.is_set()

    retrying = tenacity.AsyncRetrying(
        stop=stop,
        wait=wait,
        sleep=gate.sleep,
        retry=tenacity.retry_if_exception_type(Temporary),
        before_sleep=lambda state: endpoint.on_retry(),
        reraise=True,
    )
    return await retrying(_post_once, session, endpoint, gate, payload)


async def _post_once(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    gate: Gate,
    payload: Mapping[str, Any],
) -> Mapping[str, Any]:
    await gate.wait()
    try:
        async with session.post(
            endpoint.url, json=payload, headers=endpoint.headers, proxy=endpoint.proxy
        ) as response:
            raw = await response.read()
            status, headers = response.status, response.headers
    except asyncio.TimeoutError:
        raise Temporary(f"no answer within {endpoint.timeout:g} s") from None
    except aiohttp.ClientConnectorError as error:
        raise Temporary(f"cannot connect: {error}", unreachable=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise Temporary(f"the connection broke: {type(error).__name__} {error}") from None
    if 200 <= status < 300:
        try:
            body = json.loads(raw)
            choices_of(body)
        except BrokenAnswer as error:
            sent = _opening(raw, headers, endpoint)
            raise Temporary(f"{endpoint.conceal(str(error))}; it sent {sent}") from None
        except (ValueError, RecursionError):
            # Brackets nested a hundred thousand deep are no answer either.
            sent = _opening(raw, headers, endpoint)
            raise Temporary(f"the answer is no valid JSON; it sent {sent}") from None
        return body
    raise refusal(status, raw, headers, payload, endpoint, gate)


def _opening(raw: bytes, headers: Mapping[str, str], endpoint: Endpoint) -> str:
    """Content type and first words of an answer: a login page is known by them."""
    kind = headers.get("Content-Type", "no content type").split(";")[0]
    words = " ".join(raw[:10_000].decode("utf-8", "replace").split())
    # Concealed before it is cut: half a key is a secret too.
    return f"{endpoint.conceal(kind)}: {endpoint.conceal(words)[:200]}"


def refusal(
    status: int,
    raw: bytes,
    headers: Mapping[str, str],
    payload: Mapping[str, Any],
    endpoint: Endpoint,
    gate: Gate | None = None,
) -> Exception:
    """The exception for a status that is no success."""
    words, code, param = server_words(raw)
    words = endpoint.conceal(words)
    said = f"{status}: {words}" if words else f"{status}"
    quota = code == "insufficient_quota"
    if (status in RETRIED or status >= 500) and not quota:
        seconds = retry_after(headers.get("Retry-After"))
        if seconds > LONG_WAIT:
            endpoint.say_once("wait", f"the server asks to wait {seconds:.0f} s ({said})")
        if status == 429 and seconds and gate is not None:
            gate.pause(seconds)
        return Temporary(f"the server answered {said}", seconds)
    if status in (400, 422):
        if code == "content_filter":
            return Filtered(said)
        if code == "context_length_exceeded":
            return TooLong(f"the server answered {said}")
        named = refused_field(words, param, payload)
        if named is not None:
            return FieldRefused(named, said)
    return ApiError(f"{endpoint.url.split('?')[0]} answered {said}")


def server_words(raw: bytes) -> tuple[str, str | None, str | None]:
    """Message, code and named parameter of an error body, in any of the usual shapes."""
    text = raw.decode("utf-8", "replace").strip()
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return text[:500], None, None
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(error, Mapping):
        message = error.get("message") or error.get("detail") or error
        words = message if isinstance(message, str) else json.dumps(message)
        code, param = error.get("code"), error.get("param")
        return (
            words[:500],
            code if isinstance(code, str) else None,
            param if isinstance(param, str) else None,
        )
    return (error if isinstance(error, str) else json.dumps(error))[:500], None, None


def refused_field(words: str, param: str | None, payload: Mapping[str, Any]) -> str | None:
    """The adaptable field of `payload` that an error names, if it names one."""
    sent = [
        name
        for name in ADAPTABLE
        if payload.get(name) is not None and not (name == "n" and payload[name] == 1)
    ]
    if param in sent:
        return param
    for name in sent:
        if re.search(rf"(?<![\w-]){name}(?![\w-])", words):
            return name
    return None


def retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header, which holds a number or a date."""
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return 0.0
    # What is no number ("nan") is no wait.
    return min(seconds, LONGEST_RETRY_AFTER) if seconds > 0 else 0.0
