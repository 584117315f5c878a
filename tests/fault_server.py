"""An OpenAI-compatible server on loopback that misbehaves as told. For tests and benchmarks.

Its texts are a function of prompt, seed and index of the choice, so what a client receives can be
checked against what it should have asked for. Faults are a function of the request and the number
of times it came, so a study meets the same faults whatever the order of its requests.

As a program, ``python fault_server.py --delay 0.05`` prints its address and serves until killed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

STATUS_FAULTS = {"408": 408, "409": 409, "429": 429, "500": 500, "502": 502, "503": 503}
TRANSPORT_FAULTS = ("reset", "timeout", "broken_json", "empty_choices")
CONTENT_FAULTS = ("null", "refusal", "content_filter", "length", "reasoning")
FAULTS = (*STATUS_FAULTS, *TRANSPORT_FAULTS, *CONTENT_FAULTS)
WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heath",
    "inlet",
    "jetty",
    "knoll",
    "larch",
]


def text_of(prompt: str, seed: int | None, index: int) -> str:
    """The text that an honest server gives for the choice `index` of a request."""
    rng = random.Random(f"{prompt}|{seed}|{index}")
    return " ".join(rng.choice(WORDS) for _ in range(6))


class FaultServer:
    """The server, in a thread of its own.

    Args:
        n: ``"honoured"``, ``"ignored"`` (one choice), ``"refused"`` (400 that names n),
            ``"alike"`` (n copies of one text), or the most choices it gives.
        faults: probability of each fault of `FAULTS`, drawn independently per request.
        delay: seconds per answer.
        retry_after: value of the Retry-After header of a 429.
        max_top_logprobs: more are refused with a 400 that names the field; 0 refuses all.
        logprobs: False leaves them out silently.
        seeds: ``"honoured"``, ``"ignored"`` (one text per prompt) or ``"refused"``.
        status: answer this status to everything, with `words`.
        bad_prompts: prompts that contain one of these always get a 500.
        stall: seconds that a ``timeout`` takes.
        reply: gets the honest answer and how many requests have come; it may change the answer,
            or give a response to send in its place.
    """

    def __init__(
        self,
        n: str | int = "honoured",
        faults: Mapping[str, float] | None = None,
        delay: float = 0.0,
        retry_after: str = "0.01",
        max_top_logprobs: int | None = None,
        logprobs: bool = True,
        seeds: str = "honoured",
        status: int | None = None,
        words: str = "the server's own words",
        bad_prompts: tuple[str, ...] = (),
        stall: float = 1.0,
        reply: Callable[[dict[str, Any], int], web.Response | None] = lambda body, count: None,
        port: int = 0,
    ) -> None:
        unknown = set(faults or {}) - set(FAULTS)
        assert not unknown, unknown
        self.n, self.faults, self.delay, self.retry_after = (
            n,
            dict(faults or {}),
            delay,
            retry_after,
        )
        self.max_top_logprobs, self.logprobs, self.seeds = max_top_logprobs, logprobs, seeds
        self.status, self.words, self.bad_prompts, self.stall = status, words, bad_prompts, stall
        self.port, self.reply = port, reply
        self.requests: list[dict[str, Any]] = []
        self.answered: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.met: Counter[str] = Counter()
        self.busiest = 0
        self.when: list[float] = []
        self._tries: Counter[str] = Counter()
        self._busy = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/completions"

    @property
    def chat_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def __enter__(self) -> FaultServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/completions", self._handle)
        app.router.add_post("/v1/chat/completions", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        payload = await request.json()
        self.requests.append(payload)
        self.headers.append(dict(request.headers))
        self.when.append(time.monotonic())
        self._busy += 1
        self.busiest = max(self.busiest, self._busy)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            return await self._answer(request, payload)
        finally:
            self._busy -= 1

    async def _answer(self, request: web.Request, payload: dict[str, Any]) -> web.StreamResponse:
        chat = "messages" in payload
        prompt = payload["messages"][-1]["content"] if chat else payload["prompt"]
        if not isinstance(prompt, str):
            prompt = json.dumps(prompt)
        n = int(payload.get("n") or 1)
        refused = self._refused(payload, n)
        if refused is not None:
            return refused
        if any(part in prompt for part in self.bad_prompts):
            return _error(500, "this prompt breaks the server")
        fault = self._fault(payload)
        if fault is not None:
            self.met[fault] += 1
        if fault in STATUS_FAULTS:
            headers = {"Retry-After": self.retry_after} if fault == "429" else None
            return _error(STATUS_FAULTS[fault], "for the moment", headers=headers)
        if fault == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault == "timeout":
            await asyncio.sleep(self.stall)
        if fault == "broken_json":
            return web.Response(
                text='{"choices": [{"text": "cut sh', content_type="application/json"
            )
        if fault == "empty_choices":
            return web.json_response({"object": "x", "choices": []})
        given = {"honoured": n, "alike": n, "ignored": 1}.get(str(self.n))
        given = min(n, int(self.n)) if given is None and self.n != "refused" else (given or 1)
        seed = payload.get("seed") if self.seeds == "honoured" else None
        texts = [text_of(prompt, seed, 0 if self.n == "alike" else i) for i in range(given)]
        choices = [self._choice(payload, chat, i, text, fault) for i, text in enumerate(texts)]
        self.answered.append({"prompt": prompt, "seed": seed, "n": n, "texts": texts})
        random.Random(prompt).shuffle(choices)
        tokens = sum(len(text.split()) for text in texts)
        body = {"choices": choices, "usage": {"completion_tokens": tokens}}
        other = self.reply(body, len(self.requests))
        return web.json_response(body) if other is None else other

    def _refused(self, payload: dict[str, Any], n: int) -> web.Response | None:
        if self.status is not None:
            return _error(self.status, self.words)
        if self.n == "refused" and n > 1:
            return _error(400, "n > 1 is not supported: n must be 1", param="n")
        if self.seeds == "refused" and "seed" in payload:
            return _error(400, "Unrecognized request argument: seed", param="seed")
        name = "top_logprobs" if "messages" in payload else "logprobs"
        k = payload.get(name) or 0
        if self.max_top_logprobs is not None and k > self.max_top_logprobs:
            if self.max_top_logprobs == 0:
                return _error(400, f"'{name}' is not supported with this model", param=name)
            return _error(400, f"Invalid value for '{name}': must be <= {self.max_top_logprobs}.")
        return None

    def _fault(self, payload: dict[str, Any]) -> str | None:
        name = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
        self._tries[name] += 1
        rng = random.Random(f"{name}|{self._tries[name]}")
        order = list(self.faults)
        rng.shuffle(order)
        return next((fault for fault in order if rng.random() < self.faults[fault]), None)

    def _choice(
        self, payload: dict[str, Any], chat: bool, index: int, text: str, fault: str | None
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "finish_reason": "stop"}
        if fault in ("content_filter", "length"):
            choice["finish_reason"] = fault
        tokens = [word if i == 0 else f" {word}" for i, word in enumerate(text.split())]
        if chat:
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if fault in ("null", "refusal", "reasoning"):
                message["content"] = None
            if fault == "refusal":
                message["refusal"] = "I cannot help with that."
            if fault == "reasoning":
                message["reasoning_content"] = "let me think"
                choice["finish_reason"] = "length"
            choice["message"] = message
            if self.logprobs and payload.get("logprobs"):
                k = payload.get("top_logprobs", 0)
                choice["logprobs"] = {"content": [_chat_token(token, k) for token in tokens]}
        else:
            choice["text"] = None if fault == "null" else text
            if self.logprobs and payload.get("logprobs"):
                choice["logprobs"] = _completion_tokens(tokens, payload["logprobs"])
        return choice


def distribution(k: int) -> list[float]:
    """Log-probabilities of every position: 1/2, 1/4, 1/8, ... of which k are shown."""
    return [-(i + 1) * math.log(2) for i in range(k)]


def _chat_token(token: str, k: int) -> dict[str, Any]:
    # All candidates but the first print alike and differ in their bytes.
    top = [
        {"token": token if i == 0 else "�", "bytes": [200 + i] if i else list(token.encode())}
        for i in range(k)
    ]
    for entry, logprob in zip(top, distribution(k), strict=True):
        entry["logprob"] = logprob
    return {
        "token": token,
        "bytes": list(token.encode()),
        "logprob": math.log(0.5),
        "top_logprobs": top,
    }


def _completion_tokens(tokens: list[str], k: int) -> dict[str, Any]:
    top = [
        {token if i == 0 else f"<{i}>": value for i, value in enumerate(distribution(k))}
        for token in tokens
    ]
    return {"tokens": tokens, "token_logprobs": [math.log(0.5)] * len(tokens), "top_logprobs": top}


def _error(
    status: int, words: str, param: str | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    body = {"error": {"message": words, "type": "x", "param": param, "code": None}}
    return web.json_response(body, status=status, headers=headers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--n", default="honoured")
    args = parser.parse_args()
    n = int(args.n) if args.n.isdigit() else args.n
    with FaultServer(n=n, delay=args.delay, port=args.port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
