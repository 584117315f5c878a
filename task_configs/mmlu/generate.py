"""Write the YAML files of the 57 MMLU subjects and of their group, next to this file.

Run it after a change: ``python task_configs/mmlu/generate.py``.
"""

from __future__ import annotations

from pathlib import Path

SUBJECTS = {
    "humanities": (
        "formal_logic high_school_european_history high_school_us_history "
        "high_school_world_history international_law jurisprudence logical_fallacies "
        "moral_disputes moral_scenarios philosophy prehistory professional_law world_religions"
    ),
    "social_sciences": (
        "econometrics high_school_geography high_school_government_and_politics "
        "high_school_macroeconomics high_school_microeconomics high_school_psychology "
        "human_sexuality professional_psychology public_relations security_studies sociology "
        "us_foreign_policy"
    ),
    "stem": (
        "abstract_algebra anatomy astronomy college_biology college_chemistry "
        "college_computer_science college_mathematics college_physics computer_security "
        "conceptual_physics electrical_engineering elementary_mathematics high_school_biology "
        "high_school_chemistry high_school_computer_science high_school_mathematics "
        "high_school_physics high_school_statistics machine_learning"
    ),
    "other": (
        "business_ethics clinical_knowledge college_medicine global_facts human_aging management "
        "marketing medical_genetics miscellaneous nutrition professional_accounting "
        "professional_medicine virology"
    ),
}
# A group can only average its tasks, so it reports what is a mean over items.
AVERAGED = ("acc", "mode_acc", "capability_gap", "samples_used", "answer_agreement")


def subject_yaml(subject: str) -> str:
    """The task of one subject."""
    words = subject.replace("_", " ")
    return (
        "# Written by generate.py.\n"
        "include: _template.yaml\n"
        f"task: lmrel_mmlu_{subject}\n"
        f"dataset_name: {subject}\n"
        f'description: "Multiple-choice questions on {words}. '
        'Reply with the letter of the right option.\\n\\n"\n'
    )


def group_yaml(group: str, tasks: list[str]) -> str:
    """A group with the means over all items of its tasks."""
    lines = [
        "# Written by generate.py.",
        "# Levels, bounds and coverage belong to a task: the average of levels is not a level.",
        f"group: {group}",
        "task:",
        *(f"  - {task}" for task in tasks),
        "aggregate_metric_list:",
        *(f"  - {{metric: {name}, weight_by_size: true}}" for name in AVERAGED),
        "metadata: {version: 1}",
    ]
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """Name and text of every file."""
    written: dict[str, str] = {}
    for field, subjects in SUBJECTS.items():
        tasks = [f"lmrel_mmlu_{subject}" for subject in subjects.split()]
        written[f"_group_{field}.yaml"] = group_yaml(f"lmrel_mmlu_{field}", tasks)
        for subject in subjects.split():
            written[f"lmrel_mmlu_{subject}.yaml"] = subject_yaml(subject)
    written["_group.yaml"] = group_yaml("lmrel_mmlu", [f"lmrel_mmlu_{field}" for field in SUBJECTS])
    return written


if __name__ == "__main__":
    for name, text in files().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
