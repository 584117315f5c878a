"""Building the requests of a task: one per item and condition."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import torch

from lmrel_tasks.conditions import ConditionSpec, asked_under, joined
from lmrel_tasks.markdown import counted
from lmrel_tasks.option_order import rearranged
from lmrel_tasks.request import REQUEST_TYPE, Plan, SampleRequest, item_key
from lmrel_tasks.task_setup import ConfiguredTask, options_for
from lmrel_tasks.variants import original, with_field

log = logging.getLogger(__name__)


class AskingTask(ConfiguredTask):
    """The requests of a `RepeatedTask`."""

    def build_all_requests(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Build the requests; ones taken from the request cache get the settings of this run."""
        self._warn_if_greedy()
        self._shot_states = self._states_of_one_process(**kwargs)
        super().build_all_requests(**kwargs)
        chosen = sorted(set(kwargs.get("samples") or ()))
        copies = self._copies()
        for request in self._instances or ():
            if isinstance(request, SampleRequest):
                place = request.doc_id or 0
                self._plan(request, copies.get(chosen[place] if chosen else place, 1))
        self._warn_of_items_without_baseline()

    def _warn_of_items_without_baseline(self) -> None:
        for name, reasons in self.editor.without_baseline().items():
            reason, count = reasons.most_common(1)[0]
            log.warning(
                "task %s: %s without text under condition %s, left out of its tests; in %d of them "
                "because: %s",
                self.config.task, counted(reasons.total(), "item"), name, count, reason,
            )  # fmt: skip

    def _copies(self) -> dict[int, int]:
        """For documents that stand in the data before: their place, and the how-manieth they are.

        Each copy is an item of its own, with draws of its own.
        """
        seen: Counter[str] = Counter()
        copies = {}
        for place, doc in enumerate(self.eval_docs):
            key = item_key(doc)
            seen[key] += 1
            if seen[key] > 1:
                copies[place] = seen[key]
        return copies

    def _states_of_one_process(
        self,
        rank: int = 0,
        world_size: int = 1,
        limit: int | None = None,
        samples: list[int] | None = None,
        **_: Any,
    ) -> Iterator[Any]:
        """The few-shot sampler's state before each of this rank's items.

        The harness draws shots from one sequence in the order of the items, so ranks that see
        every other item would draw other shots than a single process does.
        """
        sampler, shots = getattr(self, "sampler", None), self.config.num_fewshot or 0
        if world_size == 1 or not shots or sampler is None:
            return
        start, states = sampler.rnd.getstate(), []
        same_split = self.fewshot_cfg.split == self.config.test_split
        for number, (_, doc) in enumerate(self.doc_iterator(limit=limit, samples=samples)):
            if number % world_size == rank:
                states.append(sampler.rnd.getstate())
            sampler.sample(n=shots, eval_doc=doc if same_split else None)
        sampler.rnd.setstate(start)
        yield from states

    def fewshot_context(self, doc: Any, num_fewshot: int, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """One prompt per condition, in their order; all with the same shots unless they differ."""
        system = kwargs.pop("system_instruction", None)
        kwargs.pop("gen_prefix", None)
        state = next(self._shot_states, None)
        if state is None and hasattr(self, "sampler"):
            state = self.sampler.rnd.getstate()
        contexts = []
        for condition in self._asked(doc):
            if state is not None:
                self.sampler.rnd.setstate(state)
                if condition.fewshot_seed is not None:
                    self.sampler.rnd.seed(f"{condition.fewshot_seed}:{item_key(doc)}")
            asked = self._arranged(doc, condition)
            with asked_under(self, condition):
                contexts.append(
                    super().fewshot_context(
                        asked,
                        int(condition.prompt.get("num_fewshot", num_fewshot) or 0),
                        *args,
                        system_instruction=self._system(condition, system, kwargs),
                        gen_prefix=self.doc_to_prefix(asked),
                        **kwargs,
                    )
                )
        return contexts

    def _system(
        self, condition: ConditionSpec, given: str | None, kwargs: Mapping[str, Any]
    ) -> str | None:
        """The system instruction; in a plain prompt the condition's stands in lines of its own."""
        system = joined(condition.system, given)
        if condition.system and not kwargs.get("apply_chat_template"):
            return f"{system}{self.config.fewshot_delimiter or ''}"
        return system

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """One request per condition; the harness clones each ``repeats`` times."""
        if self.OUTPUT_TYPE not in ("generate_until", "multiple_choice"):
            raise ValueError(
                f"task {self.config.task}: output_type {self.OUTPUT_TYPE} cannot be sampled; "
                "use generate_until or multiple_choice"
            )
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        return [
            SampleRequest(
                request_type=REQUEST_TYPE,  # type: ignore[arg-type]
                doc=self._arranged(doc, condition),
                arguments=(prompt, {}),
                idx=self.conditions.index(condition),
                **kwargs,
            )
            for condition, prompt in zip(self._asked(doc), ctx, strict=True)
        ]

    def _asked(self, doc: Any) -> list[ConditionSpec]:
        """The conditions under which there is something to ask about this document."""
        if not self.editor.edits:
            return list(self.conditions)
        key = item_key(doc)
        return [one for one in self.conditions if self.editor.exists(doc, key, one.name)]

    def _arranged(self, doc: Any, condition: ConditionSpec) -> Any:
        """The document as the condition asks it: its text, its options in the condition's order."""
        fields, edit = self.settings.option_fields, condition.edit
        asked = doc
        try:
            if condition.option_order is not None and fields is not None:
                asked = rearranged(doc, fields, condition.option_order, item_key(doc))
            if edit is not None and edit.text is not None:
                text = self.editor.edited(doc, item_key(doc), condition.name).text
                asked = with_field(asked, edit.text, text)
        except ValueError as error:
            raise ValueError(f"task {self.config.task}, item {item_key(doc)}: {error}") from None
        return asked

    def _plan(self, request: SampleRequest, copy: int = 1) -> None:
        condition = self.conditions[request.idx]
        try:
            drawing = self._drawing(request)
        except ValueError as error:
            raise ValueError(f"task {self.config.task}: {error}") from None
        seed = self.settings.seed
        if request.idx == 0 and self._answer and "bypass" not in self._metric_fn_list:
            # A label that holds no answer is found before anything is sampled.
            self._labels(request.doc, self._answer["kind"])
        key = item_key(original(request.doc))
        plan = Plan(
            task=str(self.config.task),
            item=key if copy == 1 else f"{key}#{copy}",
            condition=condition.name,
            # The harness hands its --seed to torch; a run's own draws derive from it.
            seed=int(torch.initial_seed()) if seed is None else seed,
            settings=self.settings,
            kind=drawing["kind"],
            choices=drawing["choices"],
            first_tokens=drawing.get("first_tokens", False),
        )
        told = {"item": plan.item, "condition": plan.condition, "seed": plan.seed}
        request.plan = plan
        request.arguments = (request.arguments[0], drawing["generation"], told)
        request.repeats = drawing["repeats"]
        request.metadata = (request.task_name, request.doc_id, request.repeats)

    def _drawing(self, request: SampleRequest) -> dict[str, Any]:
        """How the runs of a request are drawn, and what kind of answer they hold."""
        condition = self.conditions[request.idx]
        return {
            "generation": {**deepcopy(self.config.generation_kwargs or {}), **condition.generation},
            "repeats": self.config.repeats,
            "kind": self._answer["kind"] if self._answer else None,
            "choices": options_for(request.doc, self._answer),
        }
