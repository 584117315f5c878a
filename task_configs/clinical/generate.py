"""Write the clinical tasks of ../medqa and ../clinical_cases from prompts.yaml.

Run it after a change: ``python task_configs/clinical/generate.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FINISH = 'Keep it short. Finish with a line "Diagnosis:" and the one diagnosis.\n\n'
OF_RUNS = (
    "semantic_repeatability", "semantic_alpha_repeatability", "internal_repeatability",
    "internal_stability", "answer_agreement", "semantic_entropy", "tar_answer",
)  # fmt: skip
OF_CONDITIONS = (
    "semantic_reproducibility", "semantic_reproducibility_debiased",
    "semantic_alpha_reproducibility", "internal_reproducibility", "answer_reproducibility",
)  # fmt: skip
LAST = ("empty_rate", "missing_rate")
COMPONENTS = ("var_item", "var_condition", "var_item_condition", "var_run")
MEASURES = ("meaning", "certainty", "correctness")
DATA = {
    "medqa": (
        "MedQA questions that ask for a diagnosis",
        "dataset_path: GBaker/MedQA-USMLE-4-options\n"
        "process_docs: !function lmrel_tasks.clinical.medqa_cases\n",
    ),
    "clinical_cases": (
        "Clinical cases; your own with --metadata cases=FILE.jsonl (id, case, diagnosis)",
        "custom_dataset: !function lmrel_tasks.clinical.clinical_cases\n",
    ),
}
TEMPLATE = """\
# Written by ../clinical/generate.py. {what}.
# Open-ended: no options are shown. `--metadata correctness=canonical|embedding|judge` says how a
# diagnosis is judged, and names the results: acc,canonical.
class: !function lmrel_tasks.task.RepeatedTask
{data}test_split: test
output_type: generate_until
doc_to_text: "Case: {{{{case.strip()}}}}\\nReasoning:"
doc_to_target: diagnosis
repeats: 100
num_fewshot: 2
generation_kwargs:
  do_sample: true
  temperature: 0.5
  top_k: 30
  max_gen_toks: 256
  until: ["\\nCase:", "</s>", "<|im_end|>"]
filter_list:
  - name: canonical
    filter:
      - {{function: answer, kind: diagnosis}}
      - {{function: embed}}
"""


def _dump(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=96)


def shots(prompts: dict[str, Any]) -> dict[str, Any]:
    """The worked cases as few-shot examples; a field per style holds the whole answer."""
    samples = []
    for shot in prompts["shots"]:
        answers = {
            style: f"{shot[style]}\nDiagnosis: {shot['diagnosis']}" for style in prompts["styles"]
        }
        samples.append({"case": shot["case"], "diagnosis": shot["diagnosis"], **answers})
    return {"fewshot_config": {"sampler": "first_n", "samples": samples}}


def single(name: str, style: str, prompts: dict[str, Any]) -> str:
    """The task that asks in one style."""
    metrics = [{"metric": one} for one in ("acc", *OF_RUNS, *LAST)]
    config = {
        "include": "_template.yaml",
        "task": f"lmrel_{name}_{style}",
        "description": f"{prompts['styles'][style]} {FINISH}",
        "metric_list": metrics,
        "metadata": {"version": 1, "correctness": "canonical", "lmrel": {"top_logprobs": 30}},
    }
    fewshot = shots(prompts)
    fewshot["fewshot_config"]["doc_to_target"] = f"{{{{{style}}}}}"
    return "# Written by ../clinical/generate.py.\n" + _dump(config | fewshot)


def reproducibility(name: str, prompts: dict[str, Any]) -> str:
    """The task that asks in all five styles."""
    metrics: list[dict[str, Any]] = [{"metric": one} for one in ("acc", *OF_RUNS, *OF_CONDITIONS)]
    metrics += [
        {"metric": one, "of": of, "name": f"{one}_{of}"} for of in MEASURES for one in COMPONENTS
    ]
    metrics += [
        {"metric": "icc", "of": "correctness"},
        {"metric": "krippendorff_alpha", "of": "correctness", "per_condition": False},
        *({"metric": one} for one in LAST),
    ]
    conditions = [
        {
            "name": style,
            "description": f"{text} {FINISH}",
            "fewshot_target": f"{{{{{style}}}}}",
        }
        for style, text in prompts["styles"].items()
    ]
    config = {
        "include": "_template.yaml",
        "task": f"lmrel_{name}_reproducibility",
        "metric_list": metrics,
        "metadata": {
            "version": 1,
            "correctness": "canonical",
            "lmrel": {"top_logprobs": 30, "conditions": conditions},
        },
    }
    return "# Written by ../clinical/generate.py.\n" + _dump(config | shots(prompts))


def group(name: str, styles: list[str]) -> str:
    """The group; its tasks ask the same items, so nothing is averaged over them."""
    tasks = [f"lmrel_{name}_{one}" for one in (*styles, "reproducibility")]
    return "# Written by ../clinical/generate.py.\n" + _dump(
        {"group": f"lmrel_{name}", "task": tasks, "metadata": {"version": 1}}
    )


def main() -> None:
    """Write all files."""
    here = Path(__file__).parent
    prompts = yaml.safe_load((here / "prompts.yaml").read_text(encoding="utf-8"))
    styles = list(prompts["styles"])
    for name, (what, data) in DATA.items():
        folder = here.parent / name
        folder.mkdir(exist_ok=True)
        files = {
            "_template": TEMPLATE.format(what=what, data=data),
            "_group": group(name, styles),
            f"lmrel_{name}_reproducibility": reproducibility(name, prompts),
            **{f"lmrel_{name}_{style}": single(name, style, prompts) for style in styles},
        }
        for stem, text in files.items():
            (folder / f"{stem}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
