"""The task class inside the harness's own evaluation, on a scripted model."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest
from fakes import ScriptedLM, evaluate, write_task
from lm_eval.api.registry import get_filter

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import run_seed

ITEMS = [{"question": f"q{i}?", "answer": "yes"} for i in range(6)]


def alternating(prompt: str, run: int) -> str:
    return "Yes." if run % 2 == 0 else "no"


def test_numbers_and_standard_errors_match_hand_computation(tmp_path):
    # Item i is right in (i mod 4) of 4 runs, so accuracies and agreements are known.
    def answer(prompt: str, run: int) -> str:
        right = int(prompt[1]) % 4
        return "yes" if run < right else "no"

    write_task(tmp_path, "t", ITEMS, metric_list=[
        {"metric": name} for name in
        ("acc", "answer_agreement", "tar_answer", "tar_raw", "empty_rate", "missing_rate")
    ])  # fmt: skip
    row = evaluate(ScriptedLM(answer), tmp_path, "t")["results"]["t"]
    rights = np.array([0, 1, 2, 3, 0, 1])
    assert row["acc,none"] == pytest.approx((rights / 4).mean())
    assert row["acc_stderr,none"] == pytest.approx((rights / 4).std(ddof=1) / math.sqrt(6))
    pairs = (rights * (rights - 1) + (4 - rights) * (3 - rights)) / 12
    assert row["answer_agreement,none"] == pytest.approx(pairs.mean())
    same = (rights == 0) | (rights == 4)
    assert row["tar_answer,none"] == pytest.approx(same.mean())
    assert row["tar_answer_stderr,none"] == pytest.approx(same.std(ddof=1) / math.sqrt(6))
    assert row["empty_rate,none"] == 0
    assert row["missing_rate,none"] == 0


def test_samples_hold_seeds_tokens_and_answers_as_valid_json(tmp_path):
    write_task(tmp_path, "t", ITEMS)
    results = evaluate(ScriptedLM(alternating), tmp_path, "t")
    sample = results["samples"]["t"][0]
    again = json.loads(json.dumps(sample, allow_nan=False, default=str))
    runs = again["lmrel"]["runs"][0]
    assert [run["answer"] for run in runs] == ["yes", "no", "yes", "no"]
    item = again["lmrel"]["item"]
    seed = again["arguments"][0][2]["seed"]
    assert [run["seed"] for run in runs] == [run_seed(seed, item, "default", r) for r in range(4)]
    assert all(run["tokens"] == 1 for run in runs)
    assert again["lmrel"]["labels"] == ["yes"]
    assert again["acc"] == 0.5
    assert again["metrics"] == ["acc", "answer_agreement"]


def test_harness_seed_sets_the_run_seeds(tmp_path):
    write_task(tmp_path, "t", ITEMS)
    seeds = []
    for torch_seed in (1, 2, 1):
        lm = ScriptedLM(alternating)
        evaluate(lm, tmp_path, "t", torch_random_seed=torch_seed)
        seeds.append([seed for _, _, seed in lm.asked])
    assert seeds[0] == seeds[2]
    assert not set(seeds[0]) & set(seeds[1])
    assert len(set(seeds[0])) == 24


def test_seeds_do_not_depend_on_limit_or_selection(tmp_path):
    write_task(tmp_path, "t", ITEMS)

    def seeds(**options):
        lm = ScriptedLM(alternating)
        evaluate(lm, tmp_path, "t", **options)
        return {(prompt, run): seed for prompt, run, seed in lm.asked}

    everything = seeds()
    assert len(everything) == 24
    for part in (seeds(limit=2), seeds(samples={"t": [1, 4]})):
        assert len(part) == 8
        assert part.items() <= everything.items()


@pytest.mark.parametrize(
    "steps",
    [
        [{"function": "take_first"}],
        [{"function": "take_first_k", "k": 3}, {"function": "majority_vote"}],
        [{"function": "regex", "regex_pattern": r"(\w+)"}, {"function": "majority_vote"}],
        [{"function": "lowercase"}, {"function": "take_first_k", "k": 2}],
    ],
)
def test_stock_filters_give_what_they_give_on_plain_texts(tmp_path, steps):
    write_task(
        tmp_path, "t", ITEMS,
        filter_list=[{"name": "none", "filter": steps}], metric_list=[{"metric": "acc"}],
    )  # fmt: skip
    results = evaluate(
        ScriptedLM(lambda p, r: ["Yes", "no", "No"][(r + int(p[1])) % 3]), tmp_path, "t"
    )
    for number, sample in enumerate(results["samples"]["t"]):
        texts = [[["Yes", "no", "No"][(r + number) % 3] for r in range(4)]]
        for step in steps:
            options = {key: value for key, value in step.items() if key != "function"}
            texts = list(get_filter(step["function"])(**options).apply(texts, [ITEMS[number]]))
        shown = sample["filtered_resps"][0]
        assert (shown if isinstance(shown, str) else list(shown)) == texts[0]


def test_texts_that_a_stock_filter_maps_to_nothing_hold_no_answer(tmp_path):
    steps = [{"function": "map", "mapping_dict": {"yes": "no"}}, {"function": "answer"}]
    write_task(tmp_path, "t", ITEMS, filter_list=[{"name": "none", "filter": steps}],
               metric_list=[{"metric": "no_answer_rate"}])  # fmt: skip
    lm = ScriptedLM(lambda prompt, index: "yes" if index % 2 else "other")
    row = evaluate(lm, tmp_path, "t")["results"]["t"]
    assert row["no_answer_rate,none"] == 0.5


def test_captures_survive_stock_filters(tmp_path):
    steps = [{"function": "regex", "regex_pattern": r"(\w+)"}]
    write_task(
        tmp_path, "t", ITEMS, filter_list=[{"name": "none", "filter": steps}],
        metric_list=[{"metric": "internal_repeatability"}],
    )  # fmt: skip
    row = evaluate(ScriptedLM(alternating), tmp_path, "t")["results"]["t"]
    assert row["internal_repeatability,none"] == pytest.approx(0.9)


def test_without_capture_internal_metrics_are_left_out_with_one_warning(tmp_path, caplog):
    write_task(tmp_path, "t", ITEMS, metric_list=[
        {"metric": "acc"}, {"metric": "internal_repeatability"}, {"metric": "internal_stability"}
    ])  # fmt: skip
    with caplog.at_level(logging.WARNING):
        row = evaluate(ScriptedLM(alternating, capture=False), tmp_path, "t")["results"]["t"]
    assert "acc,none" in row
    assert not [key for key in row if key.startswith("internal")]
    told = [one for one in caplog.records if "internal_repeatability" in one.getMessage()]
    assert len(told) == 1 and "log-probabilities" in told[0].getMessage()


def test_reasons_name_the_conditions_whose_runs_are_all_empty(tmp_path, caplog):
    write_task(
        tmp_path, "t", ITEMS, metric_list=[{"metric": "internal_reproducibility"}],
        metadata={"lmrel": {"conditions": [
            {"name": "plain"}, {"name": "mute", "description": "Say nothing. "},
        ]}},
    )  # fmt: skip
    silent = Run("", Capture(finish_reason="stop"))
    evaluate(ScriptedLM(lambda p, r: silent if "nothing" in p else "x"), tmp_path, "t")
    assert "left out of the results (every run is empty under mute)" in caplog.text


def test_runs_without_an_answer_are_told(tmp_path, caplog):
    filters = [{"name": "none", "filter": [{"function": "answer", "kind": "numeric"}]}]
    items = [{"question": f"{n}?", "answer": "7"} for n in range(6)]
    write_task(tmp_path, "t", items, filter_list=filters)
    evaluate(ScriptedLM(lambda p, r: "none" if r else "7"), tmp_path, "t")
    assert "18 of 24 runs hold no answer of kind numeric" in caplog.text
    caplog.clear()
    evaluate(ScriptedLM(lambda p, r: "none" if r % 2 else "7"), tmp_path, "t")
    assert "hold no answer" not in caplog.text


def test_item_whose_every_run_is_empty(tmp_path):
    items = [*ITEMS, {"question": "q6?", "answer": "yes"}]
    write_task(tmp_path, "t", items, metric_list=[
        {"metric": "acc"}, {"metric": "answer_agreement"}, {"metric": "empty_rate"},
    ])  # fmt: skip
    lm = ScriptedLM(lambda prompt, run: " \n" if prompt.startswith("q6") else "yes")
    results = evaluate(lm, tmp_path, "t")
    row = results["results"]["t"]
    assert row["acc,none"] == pytest.approx(6 / 7)  # an empty answer is wrong
    assert row["answer_agreement,none"] == 1  # and says nothing about agreement
    assert row["empty_rate,none"] == pytest.approx(1 / 7)
    assert results["samples"]["t"][6]["answer_agreement"] is None


def test_every_run_of_every_item_empty(tmp_path):
    write_task(tmp_path, "t", ITEMS)
    row = evaluate(ScriptedLM(lambda p, r: ""), tmp_path, "t")["results"]["t"]
    assert row["acc,none"] == 0
    assert "answer_agreement,none" not in row


@pytest.mark.parametrize("text", ["🙂 yes 🙂", "  ", "\u202e", "é́", "\ud800"])
def test_odd_texts_pass_through(tmp_path, text):
    write_task(tmp_path, "t", ITEMS)
    results = evaluate(ScriptedLM(lambda p, r: text), tmp_path, "t")
    assert results["samples"]["t"][0]["resps"][0][0] == text


def test_missing_runs_are_counted_and_not_scored(tmp_path):
    lost = Run("", Capture(error="HTTP 500"))
    write_task(
        tmp_path, "t", ITEMS, metric_list=[{"metric": "acc"}, {"metric": "missing_rate"}],
        metadata={"lmrel": {"max_missing": 0.5}},
    )  # fmt: skip
    lm = ScriptedLM(lambda p, r: lost if r == 1 else "yes")
    results = evaluate(lm, tmp_path, "t")
    row = results["results"]["t"]
    assert row["acc,none"] == 1
    assert row["missing_rate,none"] == pytest.approx(0.25)
    assert results["samples"]["t"][0]["resps"][0] == ["yes"] * 3


def test_too_many_missing_runs_fail_loudly(tmp_path):
    lost = Run("", Capture(error="HTTP 500"))
    write_task(tmp_path, "t", ITEMS)
    with pytest.raises(RuntimeError, match=r"task t: 6 of 24 runs are missing.*HTTP 500"):
        evaluate(ScriptedLM(lambda p, r: lost if r == 1 else "yes"), tmp_path, "t")


def test_predict_only_computes_no_metric(tmp_path):
    write_task(tmp_path, "t", ITEMS, filter_list=[
        {"name": "none", "filter": [{"function": "answer"}, {"function": "embed"}]}
    ])  # fmt: skip
    results = evaluate(ScriptedLM(alternating), tmp_path, "t", predict_only=True)
    assert [key for key in results["results"]["t"] if "bypass" not in key and "," in key] == []
    assert results["samples"]["t"][0]["resps"][0] == ["Yes.", "no", "Yes.", "no"]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"repeats": 1}, ValueError, "task t: metric answer_agreement needs repeats >= 2"),
        ({"repeats": 0}, ValueError, "task t: repeats must be a positive integer"),
        ({"metadata": {"lmrel": {"top_logprob": 5}}}, ValueError, "did you mean top_logprobs"),
        ({"metadata": {"lmrel": {"top_logprobs": "5"}}}, TypeError, "top_logprobs must be int"),
        ({"metadata": {"lmrel": {"top_logprobs": -1}}}, ValueError, "top_logprobs must be 0"),
        ({"metadata": {"lmrel": {"logprobs": "all"}}}, ValueError, "must be raw or sampling"),
        ({"metadata": {"lmrel": ["x"]}}, TypeError, "metadata.lmrel must be a mapping"),
        ({"metadata": {"lmrel": {"conditions": [{"doc_to_text": "x"}]}}}, ValueError,
         r"conditions\[0\] needs a name"),
        ({"metadata": {"lmrel": {"conditions": [{"name": "a"}, {"name": "a"}]}}}, ValueError,
         "'a' is there twice"),
        ({"metadata": {"lmrel": {"conditions": [{"name": "a", "prompt": "x"}]}}}, ValueError,
         "unknown field 'prompt'"),
        ({"metric_list": [{"metric": "answer_agrement"}]}, KeyError, "did you mean answer_agree"),
        ({"metric_list": [{"metric": "acc", "alpha": 1}]}, ValueError, "unknown argument 'alpha'"),
        ({"metric_list": [{"metric": "acc"}, {"metric": "acc"}]}, ValueError, "listed twice"),
        ({"metric_list": [{"metric": ["acc"]}]}, TypeError, "`metric` must be a name"),
        ({"filter_list": [{"name": "none"}]}, ValueError, r"filter_list\[0\] needs `name` and a"),
        ({"filter_list": [{"name": "none", "filter": [{"kind": "text"}]}]}, ValueError,
         "each filter needs `function`"),
        ({"metadata": {"lmrel": {"stopping": {"rule": "curtail", "delta": "0.05"}}}}, ValueError,
         "needs a delta between 0 and 1"),
        ({"filter_list": [{"name": "none", "filter": [{"function": "answer", "kind": "x"}]}]},
         ValueError, "task t: filter_list, none: filter answer: kind must be one of"),
        ({"filter_list": [{"name": "none", "filter": [{"function": "answr"}]}]},
         KeyError, r"task t: filter_list\[0\]: Unknown filter 'answr'"),
        ({"filter_list": [{"name": "none", "filter": [{"function": "answer", "knd": "text"}]}]},
         TypeError, "task t: filter_list, none: .*'knd'"),
        ({"filter_list": [{"name": "none", "filter": [
            {"function": "answer", "kind": "mcq", "choices": 5}]}]},
         TypeError, "task t: filter answer: choices must be a field"),
        ({"filter_list": [{"name": "none", "filter": [
            {"function": "answer", "kind": "mcq", "choices": "options"}]}]},
         ValueError, "task t: .*no field 'options' for choices; its fields: question, answer"),
        ({"metric_list": [{"metric": "acc", "higher_is_better": "no"}]}, TypeError,
         "task t: metric acc: higher_is_better must be true or false"),
        ({"metadata": {"lmrel": {"conditions": [{"name": "a", "doc_to_text": None}]}}}, TypeError,
         r"task t: .*\(a\): doc_to_text must be a text"),
        ({"doc_to_text": "{{nope}}"}, ValueError,
         "task t: doc_to_text: 'nope' is undefined; the document has the fields question, answer"),
        ({"doc_to_target": "{{nope}}"}, ValueError, "task t: doc_to_target: 'nope' is undefined"),
        ({"output_type": "multiple_choice", "doc_to_choice": [True, False],
          "generation_kwargs": None}, TypeError, r"doc_to_choice\[0\] is True, no text"),
    ],
)  # fmt: skip
def test_bad_settings_name_the_task_and_the_field(tmp_path, changes, error, words):
    write_task(tmp_path, "t", ITEMS, **changes)
    with pytest.raises(error, match=words):
        evaluate(ScriptedLM(alternating), tmp_path, "t")


def test_a_task_without_labels_measures_what_needs_none(tmp_path):
    write_task(tmp_path, "t", ITEMS, doc_to_target=None)
    row = evaluate(ScriptedLM(alternating), tmp_path, "t")["results"]["t"]
    assert "answer_agreement,none" in row
    assert "acc,none" not in row


@pytest.mark.parametrize("settings", [{"do_sample": False}, {"do_sample": True, "temperature": 0}])
def test_greedy_repeats_warn(tmp_path, caplog, settings):
    write_task(tmp_path, "t", ITEMS, generation_kwargs={**settings, "until": ["\n"]})
    with caplog.at_level(logging.WARNING):
        evaluate(ScriptedLM(alternating), tmp_path, "t")
    assert any(
        "task t" in r.getMessage() and "numeric noise" in r.getMessage() for r in caplog.records
    )


def test_one_repeat_is_an_ordinary_task(tmp_path):
    write_task(tmp_path, "t", ITEMS, repeats=1, metric_list=[{"metric": "acc"}])
    row = evaluate(ScriptedLM(alternating), tmp_path, "t")["results"]["t"]
    assert row["acc,none"] == 1


def test_conditions_each_get_their_prompt_and_seeds(tmp_path):
    write_task(tmp_path, "t", ITEMS, metadata={"lmrel": {"conditions": [
        {"name": "plain"},
        {"name": "polite", "doc_to_text": "Please: {{question}}", "description": "Be kind.\n\n"},
    ]}})  # fmt: skip
    lm = ScriptedLM(alternating)
    sample = evaluate(lm, tmp_path, "t")["samples"]["t"][0]
    assert [arguments[0] for arguments in sample["arguments"]] == [
        "q0?", "Be kind.\n\nPlease: q0?",
    ]  # fmt: skip
    assert sample["lmrel"]["conditions"] == ["plain", "polite"]
    seeds = [seed for _, _, seed in lm.asked]
    assert len(set(seeds)) == len(seeds) == 48


def test_identical_texts_at_high_temperature_warn(tmp_path, caplog):
    items = [{"question": f"q{i}?", "answer": "yes"} for i in range(12)]
    text = "yes, that is how it is"
    write_task(tmp_path, "t", items)
    with caplog.at_level(logging.WARNING):
        evaluate(ScriptedLM(lambda p, r: text), tmp_path, "t")
    assert any("uses one seed" in record.getMessage() for record in caplog.records)


def test_run_survives_pickling():
    import pickle

    run = Run("text", Capture(seed=3, entropy=0.5), answer="a", kind="text",
              embedding=np.ones(3, dtype=np.float32))  # fmt: skip
    again = pickle.loads(pickle.dumps(run))
    assert (again, again.capture, again.answer, again.kind) == (run, run.capture, "a", "text")
    assert np.array_equal(again.embedding, run.embedding)


def test_store_spares_every_run_that_it_has(tmp_path, monkeypatch):
    monkeypatch.setenv("LMREL_STORE", str(tmp_path / "runs.sqlite"))
    write_task(tmp_path, "t", ITEMS)
    first = ScriptedLM(alternating)
    before = evaluate(first, tmp_path, "t", limit=4)
    assert len(first.asked) == 16
    again = ScriptedLM(lambda p, r: "never asked")
    after = evaluate(again, tmp_path, "t", limit=4)
    assert again.asked == []
    assert after["results"] == before["results"]
    assert after["samples"] == before["samples"]
    more = ScriptedLM(alternating)
    evaluate(more, tmp_path, "t")
    assert {prompt for prompt, _, _ in more.asked} == {"q4?", "q5?"}
    write_task(tmp_path, "t", ITEMS, repeats=6)
    longer = ScriptedLM(alternating)
    evaluate(longer, tmp_path, "t")
    assert sorted({run for _, run, _ in longer.asked}) == [4, 5]
    assert len(longer.asked) == 12
    other = ScriptedLM(alternating)
    evaluate(other, tmp_path, "t", gen_kwargs="temperature=0.5")
    assert len(other.asked) == 36


def test_ranks_show_the_shots_that_one_process_shows(tmp_path):
    from lm_eval.tasks import TaskManager

    write_task(tmp_path, "t", ITEMS, num_fewshot=2, fewshot_split="test")

    def prompts(rank, ranks):
        task = TaskManager(include_path=str(tmp_path), include_defaults=False).load(["t"])
        task = task["tasks"]["t"]
        task.set_fewshot_seed(1234)
        task.build_all_requests(rank=rank, world_size=ranks, limit=5)
        return [request.args[0] for request in task.instances]

    alone = prompts(0, 1)
    assert len(set(alone)) == 5
    assert prompts(0, 2) == alone[0::2]
    assert prompts(1, 2) == alone[1::2]


def test_copies_of_a_document_are_items_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LMREL_STORE", str(tmp_path / "runs.sqlite"))
    write_task(tmp_path, "t", [ITEMS[0], ITEMS[1], ITEMS[0], ITEMS[0]])
    first = ScriptedLM(lambda p, r: str(len(first.asked)))  # never twice the same
    before = evaluate(first, tmp_path, "t")
    assert len({seed for _, _, seed in first.asked}) == 16
    again = ScriptedLM(lambda p, r: "never asked")
    assert evaluate(again, tmp_path, "t")["samples"] == before["samples"]
    assert again.asked == []
    part = ScriptedLM(lambda p, r: "never asked")
    chosen = evaluate(part, tmp_path, "t", samples={"t": [2, 3]})["samples"]["t"]
    assert part.asked == []
    assert [one["resps"] for one in chosen] == [one["resps"] for one in before["samples"]["t"][2:]]


def test_identity_of_documents_is_their_content():
    from PIL import Image

    from lmrel_tasks.request import item_key

    images = [Image.new("RGB", (2, 2), colour) for colour in ("red", "red", "blue")]
    keys = [item_key({"q": "x", "image": image}) for image in images]
    assert keys[0] == keys[1] != keys[2]
    assert item_key({"s": {"a", "b"}}) == item_key({"s": {"b", "a"}})
    assert item_key({1: 2, "a": 3}) == item_key({"a": 3, 1: 2})
    with pytest.raises(TypeError, match="no stable content"):
        item_key({"q": object()})


def test_aggregation_mean_may_be_spelled_out_and_another_is_refused(tmp_path):
    entry = {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
    write_task(tmp_path, "t", ITEMS, metric_list=[entry])
    row = evaluate(ScriptedLM(alternating), tmp_path, "t")["results"]["t"]
    assert row["acc,none"] == 0.5 and row["acc_stderr,none"] == 0
    write_task(tmp_path, "t", ITEMS, metric_list=[{**entry, "aggregation": "median"}])
    with pytest.raises(ValueError, match="acc brings its own aggregation"):
        evaluate(ScriptedLM(alternating), tmp_path, "t")


def test_sampling_without_a_temperature_is_no_greedy_decoding(tmp_path, caplog):
    write_task(tmp_path, "t", ITEMS, generation_kwargs={"do_sample": True, "until": ["\n"]})
    with caplog.at_level(logging.WARNING):
        evaluate(ScriptedLM(alternating), tmp_path, "t")
    assert not any("numeric noise" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("temperature", ["hot", -1, float("nan")])
def test_bad_temperatures_are_found_before_sampling(tmp_path, temperature):
    lm = ScriptedLM(alternating)
    write_task(tmp_path, "t", ITEMS, metadata={"lmrel": {"conditions": [
        {"name": "a"}, {"name": "b", "generation_kwargs": {"temperature": temperature}},
    ]}})  # fmt: skip
    with pytest.raises(ValueError, match=r"condition b: generation_kwargs\.temperature"):
        evaluate(lm, tmp_path, "t")
    assert lm.asked == []


def test_indices_of_choices_as_targets(tmp_path):
    items = [{"question": f"q{i}?", "n": n} for i, n in enumerate([0, 1, -1])]
    write_task(tmp_path, "t", items, doc_to_target="n", doc_to_choice=["yes", "no"])
    results = evaluate(ScriptedLM(lambda p, r: "yes"), tmp_path, "t")
    assert [sample["acc"] for sample in results["samples"]["t"]] == [1, 0, None]


def test_numbers_that_json_lacks_are_left_out():
    assert Capture(seed=1, entropy=math.nan, logprob=-math.inf).to_dict() == {"seed": 1}
