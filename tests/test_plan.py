"""Plans: what runs cost, and whether they show what the plan promised."""

from __future__ import annotations

import json
import re
import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import ScriptedLM, evaluate, write_task
from lm_eval.api.registry import register_model
from result_folders import write_results
from scipy import stats
from test_compare import in_memory

from lmrel_tasks.cli import main
from lmrel_tasks.costs import build_requests, cost_of, money, probe, token_counter
from lmrel_tasks.differences import task_differences
from lmrel_tasks.limits import harness_limit, items_limit
from lmrel_tasks.planning import (
    Spread,
    assumed_accuracy,
    detectable_difference,
    half_width,
    items_for_difference,
    items_for_half_width,
    measured_spreads,
)

ITEMS = [{"question": f"What is {i} plus {i}?", "answer": str(2 * i)} for i in range(30)]


def load(folder: Path, name: str) -> Any:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    return manager.load([name])["tasks"][name]


@register_model("scripted_plan")
class Scripted(ScriptedLM):
    """Ten milliseconds and four words a run."""

    def __init__(self, **_: Any) -> None:
        super().__init__(self.slowly)

    def slowly(self, prompt: str, index: int) -> str:
        time.sleep(0.01)
        return "one two three four"


# Statistics ------------------------------------------------------------------------------------


def test_half_widths_are_those_of_the_closed_form_and_of_simulated_scores() -> None:
    spread = Spread("acc", 0.5, 0.05, 0.2, 0.05, "")
    assert half_width(spread, 100, 4) == pytest.approx(1.959964 * (0.1 / 100) ** 0.5)
    rng = np.random.default_rng(1)
    chance = 0.5 + rng.choice([-1, 1], (4000, 100)) * 0.05**0.5
    means = (rng.binomial(4, chance) / 4).mean(axis=1)
    assert means.std() * 1.959964 == pytest.approx(half_width(spread, 100, 4), rel=0.05)
    n = items_for_half_width(spread, 0.05, 4)
    assert half_width(spread, n, 4) <= 0.05 < half_width(spread, n - 1, 4)


def test_assumed_accuracy_splits_the_binomial_variance() -> None:
    spread = assumed_accuracy(0.7, 0.4, 0.25)
    assert spread.of_mean(1) == pytest.approx(0.21)
    assert spread.of_mean(10**9) == pytest.approx(0.4 * 0.21)
    # repeats of an item that always agree change nothing
    fixed = assumed_accuracy(0.7, 1.0)
    assert fixed.of_mean(1) == fixed.of_mean(50)
    assert assumed_accuracy(0.7, 0.4, 1.0).difference_item_variance == 0


@pytest.mark.parametrize("runs", [1, 4])
def test_a_planted_difference_of_five_points_is_found_with_the_promised_power(runs: int) -> None:
    """Two models that differ by 5 points, items and runs simulated: power within 5 points."""
    # p_A = 0.5 + u, p_B = 0.55 + 0.6 u, u uniform on +-0.3: every variance in closed form
    u = 0.3**2 / 3
    noise = [0.25 - u, 0.55 * 0.45 - 0.36 * u]
    spread = Spread("acc", 0.5, u, sum(noise) / 2, 0.16 * u, "")
    n = items_for_difference(spread, 0.05, runs, power=0.8)
    rng = np.random.default_rng(11 + runs)
    found, repetitions = 0, 600
    for _ in range(repetitions):
        x = rng.uniform(-0.3, 0.3, n)
        right = rng.binomial(runs, np.stack([0.5 + x, 0.55 + 0.6 * x])) / runs
        (one,) = task_differences(in_memory({"acc": right}))
        found += one.pvalue < 0.05
    assert one.method == ("exact McNemar" if runs == 1 else "paired t")
    assert found / repetitions == pytest.approx(0.8, abs=0.05)


def test_what_can_be_detected_agrees_with_what_it_takes() -> None:
    spread = assumed_accuracy(0.6)
    n = items_for_difference(spread, 0.05, 8)
    assert detectable_difference(spread, n, 8) == pytest.approx(0.05, rel=0.01)
    reference = (stats.norm.isf(0.025) + stats.norm.isf(0.2)) ** 2 * spread.of_difference(8)
    assert n == pytest.approx(reference / 0.0025, abs=1)


def test_spreads_are_estimated_from_repeated_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    n, runs = 400, 5
    chance = rng.uniform(0.3, 0.9, n)
    for name in "ab":
        right = rng.random((n, runs)) < chance[:, None]
        path = write_results(tmp_path / name, name, {"acc": right.mean(1).tolist()})
        samples = next(path.parent.glob("samples_*"))
        lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        for line, row in zip(lines, right, strict=True):
            answers = ["yes" if one else "no" for one in row]
            line["filtered_resps"] = line["resps"] = [answers]
            notes = [{"answer": answer} for answer in answers]
            line["lmrel"] = {"conditions": ["default"], "runs": [notes], "labels": ["yes"]}
        samples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    # uniform: mean 0.6, variance 0.36 / 12; a run's variance is E p(1 - p)
    between, within = 0.6**2 / 12, 0.6 * 0.4 - 0.6**2 / 12
    (one,) = measured_spreads([str(tmp_path / "a")], "t", correlation=0.5)
    assert one.mean == pytest.approx(0.6, abs=0.04)
    assert one.run_variance == pytest.approx(within, rel=0.1)
    assert one.item_variance == pytest.approx(between, rel=0.3)
    assert one.difference_item_variance == pytest.approx(one.item_variance)
    # the same model twice: nothing differs but the runs
    (two,) = measured_spreads([str(tmp_path / "a"), str(tmp_path / "b")], "t")
    assert two.difference_item_variance < 0.005
    assert two.of_difference(5) == pytest.approx(2 * within / 5, rel=0.2)


# Costs -----------------------------------------------------------------------------------------


def test_calls_and_tokens_of_a_repeated_task(tmp_path: Path) -> None:
    conditions = [{"name": "plain"}, {"name": "polite", "doc_to_text": "Please: {{question}}"}]
    write_task(
        tmp_path, "sums", ITEMS, repeats=4, metadata={"lmrel": {"conditions": conditions}},
        generation_kwargs={"do_sample": True, "temperature": 1.0, "max_gen_toks": 20},
    )  # fmt: skip
    task = load(tmp_path, "sums")
    items, built = build_requests(task, None)
    assert (items, built) == (30, 30)
    cost = cost_of(task, items, built, lambda text: len(text.split()))
    assert (cost.prompts, cost.repeats, cost.calls) == (60, 4, 240)
    # "What is 1 plus 1?" is five words, "Please:" one more
    assert cost.prompt_tokens == 30 * (5 + 6) and cost.input_tokens == 4 * 330
    assert cost.output_tokens == 240 * 20
    assert cost_of(task, 30, 30, len, output_tokens=7).output_tokens == 240 * 7
    assert build_requests(task, 10)[0] == 10 and build_requests(task, 0.5)[0] == 15


def test_large_data_is_measured_on_a_sample(tmp_path: Path) -> None:
    items = [{"question": "a b" if i % 2 else "a b c d", "answer": "x"} for i in range(1001)]
    write_task(tmp_path, "many", items)
    task = load(tmp_path, "many")
    total, built = build_requests(task, None)
    cost = cost_of(task, total, built, lambda text: len(text.split()))
    assert (total, built, cost.calls, cost.exact_prompts) == (1001, 100, 4004, False)
    assert cost.prompt_tokens == pytest.approx(3003, rel=0.2)


def test_likelihood_tasks_ask_every_option_and_generate_nothing(tmp_path: Path) -> None:
    rows = [{"question": "q", "options": ["a", "b", "c"], "answer": 1}] * 5
    data = tmp_path / "mc.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "mc.yaml").write_text(
        "task: mc\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\n"
        "output_type: multiple_choice\ndoc_to_text: '{{question}}'\n"
        "doc_to_choice: '{{options}}'\ndoc_to_target: answer\n",
        encoding="utf-8",
    )
    task = load(tmp_path, "mc")
    cost = cost_of(task, *build_requests(task, None), lambda text: len(text.split()))
    assert (cost.calls, cost.output_tokens, cost.prompt_tokens) == (15, 0, 30)


def test_a_real_tokenizer_counts(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=bare).save_pretrained(tmp_path / "tokenizer")
    count, how = token_counter(str(tmp_path / "tokenizer"))
    assert count("a b? a") == 4 and "counted by" in how
    count, how = token_counter(None)
    assert count("123456789") == 3 and "estimated" in how
    with pytest.raises(ValueError, match="--tokenizer"):
        token_counter(str(tmp_path / "nothing"))


def test_disk_is_right_within_a_factor_of_two(tmp_path: Path) -> None:
    from lm_eval.loggers import EvaluationTracker

    write_task(tmp_path, "sums", ITEMS, repeats=8)
    answer = "The answer to this is a rather long sentence that has fourteen words"
    result = evaluate(ScriptedLM(lambda prompt, index: answer), tmp_path, "sums")
    tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
    tracker.general_config_tracker.model_name_sanitized = "m"
    tracker.save_results_aggregated(results=result, samples=result["samples"])
    tracker.save_results_samples("sums", result["samples"]["sums"])
    size = next((tmp_path / "out").rglob("samples_*")).stat().st_size
    task = load(tmp_path, "sums")
    cost = cost_of(task, *build_requests(task, None), len, output_tokens=len(answer) / 4)
    assert size / 2 <= cost.disk <= size * 2


def test_the_probe_times_twenty_runs_and_keeps_none(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    write_task(tmp_path, "sums", ITEMS, repeats=6, metadata={"lmrel": {"store": str(store)}})
    task = load(tmp_path, "sums")
    build_requests(task, None)
    lm = Scripted()
    found = probe(task, lm, len)
    assert found.runs == 20 and len(lm.asked) == 21
    assert found.output_tokens == 4
    assert 0.2 <= found.seconds < 5
    assert not store.exists()
    # of four documents
    assert len({prompt for prompt, _, _ in lm.asked}) == 4


def test_money_is_per_million() -> None:
    assert money(2e6, 5e5, 3.0, 15.0) == pytest.approx(13.5)


# The command -----------------------------------------------------------------------------------


def test_the_command_prices_times_and_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task(tmp_path, "plan_sums", ITEMS, repeats=5)
    files = [tmp_path / "plan.json", tmp_path / "plan.csv"]
    status = main(
        [
            "plan", "plan_sums", "--include_path", str(tmp_path), "--no_defaults",
            "--probe", "", "--model", "scripted_plan", "--price-in", "1000", "--price-out", "2000",
            "--half-width", "0.1", "--difference", "0.2", "--reliability", "0.9",
            "--json", str(files[0]), "--csv", str(files[1]),
        ]
    )  # fmt: skip
    out = capsys.readouterr().out
    assert status == 0
    content = json.loads(files[0].read_text(encoding="utf-8"))
    (cost,) = content["costs"]
    assert (cost["calls"], cost["output_tokens"]) == (150, 600)
    each = content["probes"]["plan_sums"]["seconds"] / 20
    assert 0.01 <= each < 0.25
    low, high = re.search(r"(\d+\.\d\d) to (\d+\.\d\d)", out).groups()  # type: ignore[union-attr]
    # prompts are 17 or 19 characters long: 5 tokens by the estimate
    assert (float(low), float(high)) == (
        pytest.approx(30 * 5 / 1000 + 1.2), pytest.approx(150 * 5 / 1000 + 1.2),
    )  # fmt: skip
    assert "estimated as characters / 4" in out and "20 runs took" in out
    assert "29 items, of which 0 may fail" in out
    (shown,) = content["statistics"]
    assert (shown["items"], shown["runs"]) == (30, 5)
    needed = {one["runs"]: one for one in shown["needed"]}
    assert needed[1]["for_half_width"] == 97  # (1.96 / 0.1)^2 / 4, rounded up
    assert f"| {needed[5]['for_difference']}" in out
    assert files[1].read_text(encoding="utf-8").startswith("task,items,prompts")


def test_small_amounts_keep_two_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path, "plan_sums", ITEMS, repeats=5)
    command = ["plan", "plan_sums", "--include_path", str(tmp_path), "--no_defaults"]
    assert main([*command, "--output-tokens", "4", "--price-in", "0.2", "--price-out", "0.2"]) == 0
    # 150 and 750 tokens in, 600 out
    assert "0.00015 to 0.00027" in capsys.readouterr().out
    assert main([*command, "--price-in", "0"]) == 0
    assert "0.00 to 0.00" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "all"])
def test_limits_that_are_none_are_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["demo"], ["plan", "t"], ["paraphrase", "t"], ["label", "export", "x"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            main([*command, f"--limit={limit}"])
        assert stopped.value.code == 2
        assert f"{limit!r} is no " in capsys.readouterr().err


def test_shares_of_the_items_are_limits_as_in_the_harness() -> None:
    assert (harness_limit("0.5"), harness_limit("3"), items_limit("3")) == (0.5, 3, 3)
    with pytest.raises(ArgumentTypeError):
        items_limit("0.5")


def test_a_task_that_is_not_there_is_told_with_close_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task(tmp_path, "plan_sums", ITEMS, repeats=5)
    command = ["plan", "plan_sum", "--include_path", str(tmp_path), "--no_defaults"]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "is called 'plan_sum'; did you mean plan_sums" in told
    assert "--include_path" in told and "Spec" not in told


def test_statistics_alone_and_from_a_pilot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--items", "385"]) == 0
    assert "± 0.0499" in capsys.readouterr().out  # 1.96 * 0.5 / sqrt(385)
    rng = np.random.default_rng(3)
    for name in "ab":
        write_results(tmp_path / name, name, {"score": rng.normal(0.5, 0.1, 200).tolist()})
    pilot = ["--pilot", str(tmp_path / "a"), "--pilot", str(tmp_path / "b")]
    assert main(["plan", "--items", "100", *pilot]) == 0
    out = capsys.readouterr().out
    assert "measured on 200 items of two models" in out and "| t " in out


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "give tasks, or --items"),
        (["no_such_task", "--no_defaults"], "no_such_task"),
        (["--items", "0"], "give tasks, or --items"),
        (["--items", "9", "--power", "80"], "did you mean 0.8"),
        (["--items", "9", "--difference", "0"], "effect must not be zero"),
        (["--items", "9", "--half-width", "-1"], "half-width must be above 0"),
        (["--items", "9", "--price-in", "-1"], "--price-in must not be negative"),
        (["--items", "9", "--icc", "2"], "icc must lie between 0 and 1"),
        (["--items", "9", "--pilot", "nowhere"], "nowhere: no such file"),
    ],
)
def test_wrong_use_is_explained(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *options]) == 2
    assert message in capsys.readouterr().err
