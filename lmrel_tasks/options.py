"""Option probabilities of ``multiple_choice`` tasks, read in one of three ways.

- ``loglikelihood``: the harness's own requests, one per condition and option, each the full option
  string. Every model has them but chat APIs.
- ``first_token``: the log-probabilities that a server gives for the first token of its answer.
- ``samples``: the shares of canonical answers among several drawn ones.

``metadata.lmrel.read`` or the environment variable LMREL_READ chooses; otherwise log-likelihoods
are read, and the first token where prompts are chats for an API, which gives no log-likelihoods.
"""

from __future__ import annotations

import logging
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from lmrel_tasks.filters.answer import give_answer
from lmrel_tasks.filters.canonical import canonical
from lmrel_tasks.measures import condition_of
from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.metrics.panel import answer_shares
from lmrel_tasks.run import Run

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

# Generation settings of the two readings that generate; a condition may change them.
FIRST_TOKEN = {"do_sample": False, "temperature": 0.0, "max_gen_toks": 1, "until": []}
SAMPLES = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 32, "until": ["\n\n"]}


def is_chat(prompt: Any) -> bool:
    """Whether the prompt is a chat for an API: the harness's ``JsonChatStr``."""
    return isinstance(prompt, tuple) and hasattr(prompt, "prompt")


def choose_reading(task: str, wanted: str | None, prompt: Any) -> str:
    """How option probabilities are read.

    Raises:
        ValueError: if log-likelihoods are wanted of a chat API.
    """
    if not is_chat(prompt):
        return wanted or "loglikelihood"
    if wanted == "loglikelihood":
        raise ValueError(
            f"task {task}: chat APIs give no log-likelihoods; set metadata.lmrel.read (or "
            "LMREL_READ) to first_token or samples"
        )
    if wanted is None:
        log.warning(
            "task %s: chat APIs give no log-likelihoods; option probabilities are read from the "
            "first token. LMREL_READ=samples reads them from drawn answers instead.",
            task,
        )
    return wanted or "first_token"


def numbered(requests: Sequence[Any], place: int) -> list[Any]:
    """A condition's requests, numbered so that they sort behind those of the conditions before."""
    for at, request in enumerate(requests):
        request.idx = place * len(requests) + at
    return list(requests)


def probabilities_of(loglikelihoods: Sequence[float]) -> Floats | None:
    """Option probabilities from the log-likelihoods of the option strings; None without any mass.

    p_i = exp(l_i) / sum_j exp(l_j): the model's probability of each full string, renormalised over
    the options.
    """
    values = np.asarray(loglikelihoods, dtype=np.float64)
    if np.isnan(values).any() or not np.isfinite(values).any():
        return None
    return np.asarray(softmax(values), dtype=np.float64)


def first_token_probabilities(
    candidates: Sequence[tuple[str, float]], options: Sequence[str]
) -> Floats | None:
    """Option probabilities from the most probable first tokens of an answer.

    A token counts for the option that it begins, alone among the options; blanks, case and Unicode
    composition do not matter. None if no token begins an option.
    """
    plain = [_plain(option) for option in options]
    mass = np.zeros(len(options))
    for token, logprob in candidates:
        piece = _plain(token)
        begun = [at for at, option in enumerate(plain) if piece and option.startswith(piece)]
        whole = [at for at in begun if plain[at] == piece]
        if len(whole or begun) == 1:
            mass[(whole or begun)[0]] += math.exp(logprob)
    return mass / mass.sum() if mass.sum() > 0 else None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip().casefold()


def answered(runs: Sequence[Run], options: Sequence[str]) -> list[Run]:
    """The runs, given their canonical answers: one of the options or a refusal."""
    return [give_answer(run, canonical(run, "label", options), "label") for run in runs]


def cell_of(
    name: str, how: str, result: Any, options: Sequence[str], info: Mapping[str, Any]
) -> Condition:
    """One condition of an item with its option probabilities.

    Args:
        result: log-likelihoods of the options, or filtered runs.
    """
    if how == "loglikelihood":
        found = probabilities_of(result)
        best = () if found is None else (options[int(found.argmax())],)
        return Condition(
            name, texts=best, answers=best, missing=int(found is None), asked=1,
            probabilities=found, info=info,
        )  # fmt: skip
    arrived = [run for run in result if not run.missing]
    lost = len(result) - len(arrived)
    if how == "samples":
        cell = condition_of(name, arrived, missing=lost, info=info)
        shares = answer_shares([[run.answer or "" for run in arrived]], options)[0]
        return _with(cell, None if np.isnan(shares).any() else shares)
    candidates = arrived[0].capture.first_tokens if arrived else None
    found = first_token_probabilities(candidates, options) if candidates else None
    named = () if found is None else (arrived[0].derive(answer=options[int(found.argmax())]),)
    return _with(condition_of(name, named, missing=lost, info=info), found)


def _with(cell: Condition, probabilities: Floats | None) -> Condition:
    from dataclasses import replace

    return replace(cell, probabilities=probabilities)


def check_first_tokens(task: str, runs: Sequence[Run]) -> None:
    """Refuse answers without log-probabilities.

    Raises:
        RuntimeError: saying what to do.
    """
    arrived = [run for run in runs if not run.missing]
    if arrived and all(run.capture.first_tokens is None for run in arrived):
        raise RuntimeError(
            f"task {task}: the model gives no log-probabilities of its first token; read option "
            "probabilities from drawn answers: metadata.lmrel.read: samples, or LMREL_READ=samples"
        )


def record_of(item: Item, how: str) -> dict[str, Any]:
    """What the samples file says of an item's options, as plain JSON."""
    return {
        "item": item.key,
        "read": how,
        "options": list(item.options),
        "conditions": [one.name for one in item.conditions],
        "probabilities": [
            None if one.probabilities is None else one.probabilities.tolist()
            for one in item.conditions
        ],
        "applicable": [one.applicable for one in item.conditions],
        "info": [
            {key: value for key, value in one.info.items() if value == value}
            for one in item.conditions
        ],
        **({"labels": list(item.labels)} if item.has_label else {}),
    }


def item_from(record: Mapping[str, Any], fields: Mapping[str, Any]) -> Item:
    """The item that `record_of` wrote.

    Raises:
        ValueError: if the record's lists do not belong together.
    """
    options = tuple(map(str, record["options"]))
    try:
        cells = [
            Condition(
                str(name),
                answers=() if p is None else (options[int(np.argmax(p))],),
                probabilities=None if p is None else np.asarray(p, dtype=np.float64),
                applicable=bool(applicable),
                info=info,
            )
            for name, p, applicable, info in zip(
                record["conditions"], record["probabilities"], record["applicable"],
                record["info"], strict=True,
            )
        ]  # fmt: skip
    except (KeyError, ValueError) as error:
        raise ValueError(f"item {record.get('item')}: not a record of options ({error})") from None
    labels = record.get("labels")
    return Item(
        key=str(record["item"]), conditions=tuple(cells), labels=tuple(labels or ()),
        has_label=labels is not None, options=options, fields=fields,
    )  # fmt: skip


def split(results: Sequence[Any], asked: int) -> list[Sequence[Any]]:
    """The flat results of an item's log-likelihood requests, per condition."""
    width = len(results) // asked
    return [results[at * width : (at + 1) * width] for at in range(asked)]


Stock = Callable[..., Any]
