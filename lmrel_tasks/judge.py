"""A model as judge: does an answer look right, and do two answers say the same?

The judge is any harness model or OpenAI-compatible endpoint, asked greedily through the sampling
backends, so retries and concurrency are theirs. Its prompts are fixed in ``prompts/judge_*.txt``;
what it replied is kept in the store under prompt, model and settings, so that a judgement is paid
for once.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

from lmrel_tasks.identity import cell_key, model_identity, run_key
from lmrel_tasks.run import Run
from lmrel_tasks.sampling import Cell, sample_runs
from lmrel_tasks.store import Store
from lmrel_tasks.verdicts import parse_choice, parse_verdict

log = logging.getLogger(__name__)

GENERATION = {"do_sample": False, "temperature": 0.0, "max_gen_toks": 256, "until": []}
KEY_VARIABLE = "OPENAI_API_KEY"
CONCURRENT = 8


@dataclass(frozen=True)
class Judge:
    """A judging model.

    Attributes:
        lm: a harness model.
        name: what to call it in reports.
        store: file that keeps its replies; None keeps none.
    """

    lm: Any
    name: str
    store: Path | None = None

    def replies(self, prompts: Sequence[str]) -> list[Run]:
        """One reply per prompt; equal prompts are asked once."""
        from lmrel_tasks.sampling.collect import load_backends

        load_backends()
        unique = list(dict.fromkeys(prompts))
        cells = [Cell(as_chat(self.lm, one), GENERATION, (0,), (0,)) for one in unique]
        if self.store is None:
            found = _drawn(self.lm, cells)
        else:
            with Store.open(self.store) as store:
                found = _drawn(self.lm, cells, store)
        lost = [run for run in found.values() if run.missing]
        if lost:
            log.warning(
                "judge %s: %d of %d replies are missing. First cause: %s",
                self.name, len(lost), len(unique), lost[0].capture.error,
            )  # fmt: skip
        by_prompt = {prompt: found[at] for at, prompt in enumerate(unique)}
        return [by_prompt[prompt] for prompt in prompts]

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> list[bool | None]:
        """Per ``(question, answer)``: whether the judge calls the answer right, None if unclear."""
        prompts = [prompt("judge_correct", question=q, answer=a) for q, a in pairs]
        return [None if run.missing else parse_verdict(run) for run in self.replies(prompts)]

    def matches(
        self, questions: Sequence[tuple[str | None, tuple[str, ...], str]]
    ) -> list[int | None]:
        """Per ``(question, candidates, answer)``: position of the candidate that says the same.

        None if the judge names none, or does not say.
        """
        prompts = [
            prompt(
                "judge_match",
                question=question or "(not known)",
                candidates="\n".join(
                    f"<candidate_{number}>\n{one}\n</candidate_{number}>"
                    for number, one in enumerate(candidates, start=1)
                ),
                answer=answer,
            )
            for question, candidates, answer in questions
        ]
        picks = [
            None if run.missing else parse_choice(run, len(candidates))
            for run, (_, candidates, _) in zip(self.replies(prompts), questions, strict=True)
        ]
        unclear = Counter(pick is None for pick in picks)[True]
        if unclear:
            log.warning(
                "judge %s: %d of %d replies name no candidate; those answers are classes of "
                "their own", self.name, unclear, len(picks),
            )  # fmt: skip
        return [pick - 1 if pick else None for pick in picks]


def open_judge(
    judge: str, model: str | None = None, *, store: str | os.PathLike[str] | None = None
) -> Judge:
    """A judge by the names that a command line or YAML gives.

    Args:
        judge: the address of an OpenAI-compatible endpoint (``http://host:port/v1``, with or
            without ``/chat/completions``), or a model type of the harness such as ``hf``.
        model: the model's name at the endpoint, or the arguments of the harness model
            (``pretrained=...,dtype=float32``).
        store: file that keeps the replies.

    Raises:
        ValueError: if the model is not named, or the harness knows no such model type.

    An endpoint gets the key in the environment variable OPENAI_API_KEY, if there is one.
    """
    from lm_eval.api.registry import get_model
    from lm_eval.utils import simple_parse_args_string

    kept = None if store is None else Path(store)
    if "://" not in judge:
        try:
            model_class: Any = get_model(judge)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"judge {judge!r} is neither an address (http://...) nor a model type of the "
                f"harness: {error}"
            ) from None
        arguments = {"batch_size": CONCURRENT, "device": _device()}
        arguments |= simple_parse_args_string(model or "")
        lm = model_class.create_from_arg_obj(arguments)
        return Judge(lm, f"{judge} {model or ''}".strip(), kept)
    if not model:
        raise ValueError(f"judge {judge}: say which model to ask there (--judge-model)")
    url = judge.rstrip("/")
    if not url.endswith("/completions"):
        url += "/chat/completions" if url.endswith("/v1") else "/v1/chat/completions"
    key = os.environ.get(KEY_VARIABLE)
    kind = "local-chat-completions" if url.endswith("/chat/completions") else "local-completions"
    model_class = get_model(kind)
    lm = model_class(
        base_url=url,
        model=model,
        tokenizer_backend=None,
        tokenized_requests=False,
        num_concurrent=CONCURRENT,
        header={"Authorization": f"Bearer {key}"} if key else None,
    )
    return Judge(lm, model, kept)


def prompt(name: str, **values: str) -> str:
    """A prompt of the folder ``prompts``, filled in. Braces in the values stay as they are."""
    text = (files("lmrel_tasks") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    return Formatter().vformat(text.strip(), (), values)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def as_chat(lm: Any, text: str) -> Any:
    """The prompt as the model takes a chat; plain where it knows none."""
    tokenizer = getattr(lm, "tokenizer", None)
    if tokenizer is not None and getattr(tokenizer, "chat_template", "") is None:
        return text
    if type(lm).__name__ == "LocalCompletionsAPI":
        return text
    try:
        return lm.apply_chat_template([{"role": "user", "content": text}])
    except NotImplementedError:
        return text


def _drawn(lm: Any, cells: Sequence[Cell], store: Store | None = None) -> dict[int, Run]:
    found: dict[int, Run] = {}
    keys: list[bytes] = []
    identity: dict[str, Any] = {}
    if store is not None:
        identity = model_identity(lm)
        keys = [
            run_key(cell_key(identity, cell.prompt, GENERATION, "", "judge", {}), 0, 0)
            for cell in cells
        ]
        kept = store.get_many(keys)
        found = {at: kept[key] for at, key in enumerate(keys) if key in kept}
    left = [at for at in range(len(cells)) if at not in found]
    if not left:
        return found
    for position, _, run in sample_runs(lm, [cells[at] for at in left]):
        at = left[position]
        found[at] = run
        if store is not None:
            about = {"model": identity, "task": "(judge)", "item": keys[at].hex(),
                     "condition": "judge", "run": 0}  # fmt: skip
            store.put(keys[at], run, about)
    return found
