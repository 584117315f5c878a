"""Bias tasks on real models: padding changes no probability, and both controls come out right."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from fakes import evaluate, no_environment_report
from option_models import bias_task

from lmrel_tasks import paraphrasing
from lmrel_tasks.paraphrasing import Matching

TASKS = Path(__file__).parents[1] / "task_configs"
ITEMS = 60


@pytest.fixture(autouse=True)
def _no_embedder(monkeypatch):
    # The bundled vignettes' paraphrases pass the embedder too; loading it takes long here.
    monkeypatch.setattr(paraphrasing, "default_matching", lambda: Matching())


@pytest.fixture(scope="module")
def absolute(smollm_dir):
    """A tiny random GPT-2, which adds a vector for every absolute position."""
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(str(smollm_dir))
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=256, n_embd=32, n_layer=2, n_head=2,
        initializer_range=0.1, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).float().eval()
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, device="cpu")


def probabilities(lm, folder, batch_size):
    before = lm.batch_size_per_gpu
    lm.batch_size_per_gpu = batch_size
    try:
        samples = evaluate(lm, folder, "t")["samples"]["t"]
    finally:
        lm.batch_size_per_gpu = before
    return np.array([sample["lmrel"]["probabilities"] for sample in samples])


@pytest.mark.parametrize("kind", ["smollm", "absolute"])
def test_padding_never_changes_a_probability(tmp_path, request, kind):
    lm = request.getfixturevalue(kind)
    filler = "The patient feels well and has no other complaint. "
    items = [
        {"text": filler * n + "Is it raining?", "edited": filler * (2 - n) + "Is it snowing?",
         "reworded": "Is it raining now?" + " Yes?" * n, "direction": None}
        for n in range(3)
    ]  # fmt: skip
    # Options of several tokens, so that no shortcut for single ones is taken.
    bias_task(
        tmp_path, items, ["jsd_targeted"], doc_to_choice=["yes, surely", "no, never", "well, maybe"]
    )
    alone, together = (probabilities(lm, tmp_path, size) for size in (1, 7))
    assert np.abs(alone - together).max() <= 1e-5
    # And they are no constants that could not differ.
    assert np.ptp(alone, axis=0).max() > 1e-3
    assert np.allclose(alone.sum(axis=-1), 1)


def test_controls_on_the_real_model(smollm, smollm_dir, caplog):
    """The edit of the word that is asked for is found; a year more is not."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    recall, age = "lmrel_control_recall", "lmrel_control_age"
    manager = TaskManager(
        include_path=str(TASKS), include_defaults=False, metadata={"pretrained": str(smollm_dir)}
    )
    asked = []
    stock = smollm._model_call

    def counted(inputs, *rest, **options):
        asked.append(len(inputs))
        return stock(inputs, *rest, **options)

    smollm._model_call = counted
    try:
        with no_environment_report():
            found = simple_evaluate(
                model=smollm, tasks=[recall, age], task_manager=manager, limit=ITEMS
            )
    finally:
        del smollm._model_call
    rows = {
        task: {key.removesuffix(",none"): one for key, one in found["results"][task].items()}
        for task in (recall, age)
    }
    for task in (recall, age):
        used = found["configs"][task]["metadata"]["lmrel_used"]
        assert used == {"read": "loglikelihood", "tokens": str(smollm_dir)}
        assert rows[task]["benign_missing_rate"] == 0 and rows[task]["applicable_rate"] == 1
        assert rows[task]["jsd_rerun"] == 0
        # As large an edit, within a token of some seventy.
        fractions = [rows[task][f"edit_fraction_{side}"] for side in ("targeted", "benign")]
        assert abs(fractions[0] - fractions[1]) < 1 / 60
    assert rows[recall]["jsd_excess_p"] < 0.001
    assert rows[recall]["flip_excess_p"] < 0.001
    assert rows[recall]["jsd_excess_ci_low"] > 0
    assert rows[recall]["direction_beta_p"] < 0.001  # male loses when men become women
    assert rows[recall]["direction_beta"] < 0
    for metric in ("jsd", "kl", "flip", "log_odds_shift", "mi"):
        assert rows[age][f"{metric}_excess_p"] > 0.05
    # Original, its rerun and both options of every prompt share one pass through the model.
    distinct = {prompt for task in (recall, age) for sample in found["samples"][task]
                for prompt, *_ in sample["arguments"]}  # fmt: skip
    assert sum(asked) == len(distinct) <= 5 * ITEMS
    assert math.isclose(rows[recall]["jsd_excess"],
                        rows[recall]["jsd_targeted"] - rows[recall]["jsd_benign"])  # fmt: skip
