"""Runs from OpenAI-compatible servers, through the harness's own model objects.

Seeds. Every run has its own seed, of which the low 31 bits are sent: some servers take no more.
A request for several choices has one seed, that of its first run; the server then draws the
choices one after the other from it. So which runs share a request is part of how they were drawn,
and it is kept stable: consecutive runs are asked together, as many as the server gives, and the
runs of one answer are handed on together (`Run.pending`) so that a store keeps all or none.
A server that gives every choice of a request the same text is found out by asking for one of them
alone, and is asked for one run at a time from then on.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.models.api_models import JsonChatStr, TemplateAPI
from lm_eval.models.utils import handle_stop_sequences

from lmrel_tasks.run import Run
from lmrel_tasks.sampling import Cell, sample_runs
from lmrel_tasks.sampling.api_facts import server_facts
from lmrel_tasks.sampling.api_parse import Reading
from lmrel_tasks.sampling.api_work import Study, stream
from lmrel_tasks.sampling.fallback import sample_one_by_one
from lmrel_tasks.sampling.http import Endpoint


@sample_runs.register(TemplateAPI)
def sample_api(lm: Any, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    """Backend for ``local-completions``, ``local-chat-completions`` and the ``openai-`` ones.

    API models with a transport or a protocol of their own go through the general fallback.

    Raises:
        ApiError: when the server refuses the request (400, 401, 403, 404...); all runs that were
            answered before have been yielded by then.
        ValueError: for a prompt that the model object cannot send.
    """
    if not cells:
        return iter(())
    if not speaks_openai(lm, cells[0]):
        return sample_one_by_one(lm, cells)
    study = Study(
        cells=cells,
        endpoint=endpoint_of(lm),
        facts=server_facts(lm),
        request=lambda cell: base_payload(lm, cell),
        reading=lambda cell: reading_of(lm, cell),
    )
    return stream(study)


def speaks_openai(lm: Any, cell: Cell) -> bool:
    """Whether the model posts OpenAI payloads over the harness's own transport."""
    own = type(lm).model_call is TemplateAPI.model_call
    if not own or type(lm).amodel_call is not TemplateAPI.amodel_call:
        return False
    payload = base_payload(lm, cell)
    return "prompt" in payload or "messages" in payload


def endpoint_of(lm: Any) -> Endpoint:
    """Address, headers and limits of the model object."""
    if not lm.base_url:
        raise ValueError("the API model has no base_url; give --model_args base_url=http://...")
    verify: bool | str = lm.verify_certificate
    if verify and getattr(lm, "ca_cert_path", None):
        verify = lm.ca_cert_path
    facts = server_facts(lm)

    def count() -> None:
        facts.retries += 1

    return Endpoint(
        url=lm.base_url,
        headers=dict(lm.header),
        attempts=max(int(lm.max_retries), 1),
        timeout=float(lm.timeout),
        concurrent=max(int(lm._concurrent), 1),
        verify=verify,
        on_retry=count,
        say_once=facts.say_once,
    )


def sampling_settings(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The generation settings, with ``do_sample`` meaning what it means for local models.

    The harness's API models drop ``do_sample`` and default to temperature 0, which would turn a
    sampled task without a temperature into a greedy one: R identical texts.
    """
    settings = copy.deepcopy(dict(generation))
    if settings.get("do_sample") is True:
        settings.setdefault("temperature", 1.0)
    elif settings.get("do_sample") is False:
        settings["temperature"] = 0.0
    return settings


def base_payload(lm: Any, cell: Cell) -> dict[str, Any]:
    """The harness's payload for a cell, before seed, ``n`` and log-probabilities."""
    settings = sampling_settings(cell.generation)
    for name in ("n", "seed", "logprobs", "top_logprobs"):
        settings.pop(name, None)
    payload: dict[str, Any] = lm._create_payload(
        _message(lm, cell, settings), generate=True, gen_kwargs=settings, eos=lm.eos_string
    )
    payload.pop("seed", None)
    if not payload.get("stop"):
        # An empty list is refused by some servers, and says nothing.
        payload.pop("stop", None)
    return payload


def _message(lm: Any, cell: Cell, settings: Mapping[str, Any]) -> Any:
    prompt: Any = cell.prompt
    if not isinstance(prompt, (str, JsonChatStr)):
        raise ValueError(
            f"the prompt is {type(prompt).__name__}; API models take text, or a chat with "
            "--apply_chat_template"
        )
    if isinstance(prompt, JsonChatStr) or not lm.tokenized_requests:
        message = lm.create_message([prompt], generate=True)
        # Batches are no use here, and some servers refuse a list of prompts.
        alone = isinstance(message, list) and len(message) == 1 and isinstance(message[0], str)
        return message[0] if alone else message
    encodings = lm.tok_encode([prompt], add_special_tokens=lm.add_bos_token)
    room = lm.max_length - int(settings.get("max_gen_toks", lm._max_gen_toks))
    if room < 1:
        raise ValueError(
            f"max_gen_toks leaves no room for the prompt: max_length is {lm.max_length}"
        )
    if any(len(tokens) > room for tokens in encodings if not isinstance(tokens, str)):
        server_facts(lm).say_once("truncated", f"prompts longer than {room} tokens lose their head")
        encodings = [tokens[-room:] for tokens in encodings]
    return lm.create_message(encodings, generate=True)


def reading_of(lm: Any, cell: Cell) -> Reading:
    """Stop strings and markers for reading the answers of a cell."""
    until = handle_stop_sequences(copy.deepcopy(cell.generation.get("until")), lm.eos_string)
    return Reading(
        until=tuple(stop for stop in until if stop),
        think_end_token=getattr(lm, "think_end_token", None),
        top_logprobs=cell.top_logprobs,
        first_tokens=bool(cell.options.get("first_tokens")),
    )
