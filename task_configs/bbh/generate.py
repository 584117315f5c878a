"""Write the YAML files of the 27 BIG-Bench Hard tasks and of their group, next to this file.

Run it after a change: ``python task_configs/bbh/generate.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

from shots import SHOTS

# How a task is answered: kind of canonical answer (with its labels), and what to say of it.
LETTER = ("mcq", None, "the letter of the right option in brackets")
YES_NO = ("label", ("Yes", "No"), "Yes or No")
KINDS = {
    "boolean_expressions": ("label", ("True", "False"), "True or False"),
    "causal_judgement": YES_NO,
    "dyck_languages": ("brackets", None, "the missing brackets"),
    "formal_fallacies": ("label", ("valid", "invalid"), "valid or invalid"),
    "multistep_arithmetic_two": ("numeric", None, "the number"),
    "navigate": YES_NO,
    "object_counting": ("numeric", None, "the number"),
    "sports_understanding": ("label", ("yes", "no"), "yes or no"),
    "web_of_lies": YES_NO,
    "word_sorting": ("text", None, "the sorted words, separated by blanks"),
}
AVERAGED = ("acc", "mode_acc", "capability_gap", "samples_used", "answer_agreement")


def task_yaml(name: str) -> str:
    """The task of that name."""
    kind, labels, asked = KINDS.get(name, LETTER)
    description = f'Think briefly. Finish with "The answer is" and {asked}.'
    lines = [
        "# Written by generate.py.",
        "include: _template.yaml",
        f"task: lmrel_bbh_{name}",
        f"dataset_name: {name}",
        f"description: {_quoted(description)}",
    ]
    step = f"function: answer, kind: {kind}"
    if kind == "mcq":
        lines.append("process_docs: !function lmrel_tasks.benchmarks.bbh_lettered")
        step += ", choices: choices"
    if labels:
        step += f", choices: {json.dumps(labels)}"
    lines += ["filter_list:", "  - name: none", "    filter:", f"      - {{{step}}}"]
    lines += ["fewshot_config:", "  sampler: first_n", "  samples:"]
    for question, reasoning, answer in SHOTS[name]:
        lines.append(f"    - input: {_quoted(question, end='')}")
        lines.append(f"      target: {_quoted(f'{reasoning} The answer is {answer}.', end='')}")
    return "\n".join(lines) + "\n"


def group_yaml() -> str:
    """The group with the means over all items of its tasks."""
    lines = [
        "# Written by generate.py.",
        "# Levels, bounds and coverage belong to a task: the average of levels is not a level.",
        "group: lmrel_bbh",
        "task:",
        *(f"  - lmrel_bbh_{name}" for name in sorted(SHOTS)),
        "aggregate_metric_list:",
        *(f"  - {{metric: {name}, weight_by_size: true}}" for name in AVERAGED),
        "metadata: {version: 1}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str, end: str = "\n\n") -> str:
    # A JSON string is a YAML string.
    return json.dumps(text + end, ensure_ascii=False)


def files() -> dict[str, str]:
    """Name and text of every file."""
    tasks = {f"lmrel_bbh_{name}.yaml": task_yaml(name) for name in sorted(SHOTS)}
    return {**tasks, "_group.yaml": group_yaml()}


if __name__ == "__main__":
    for name, text in files().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
