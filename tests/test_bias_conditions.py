"""Conditions of bias experiments, and the three ways of reading option probabilities."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
from chat_server import chat_server
from fakes import ScriptedLM, evaluate
from option_models import CONDITIONS, OptionLM, bias_task, results_of
from scipy.special import softmax

from lmrel_tasks import paraphrasing
from lmrel_tasks.conditions import read_conditions
from lmrel_tasks.options import first_token_probabilities
from lmrel_tasks.paraphrasing import Matching
from lmrel_tasks.request import item_key
from lmrel_tasks.sampling.api_parse import first_tokens

MAN = (
    "A 54-year-old man comes to the clinic because of a headache. It began about 2 weeks ago and "
    "is usually worse at night. He works as a cook."
)
NOBODY = "The headache began about 2 weeks ago and is usually worse at night."
MADE = [
    {"name": "original", "role": "original"},
    {"name": "gender", "role": "targeted", "perturbation": "gender_swap"},
    {"name": "reworded", "role": "benign", "paraphrase": "lexical"},
    {"name": "again", "role": "rerun"},
    {"name": "phrase", "role": "fixed_phrase", "prefix": "The sky is blue."},
]


@pytest.fixture(autouse=True)
def _no_embedder(monkeypatch):
    monkeypatch.setattr(paraphrasing, "default_matching", lambda: Matching())


def by_length(prompt):
    p = 0.2 + 0.6 * (sum(map(ord, prompt)) % 97) / 97
    return {"yes": p, "no": 1 - p}


def test_each_condition_asks_every_option_in_full_once(tmp_path):
    bias_task(tmp_path, [{"text": MAN}, {"text": NOBODY}], ["jsd_rerun"], conditions=MADE)
    lm = OptionLM(by_length)
    found = evaluate(lm, tmp_path, "t")
    samples = found["samples"]["t"]
    man, nobody = ([tuple(one) for one in sample["arguments"]] for sample in samples)
    assert lm.asked == man + nobody
    assert len(man) == len(MADE) * 2  # no more than conditions x options
    prompts = [prompt for prompt, _ in man]
    assert prompts[0::2] == prompts[1::2]  # the options of one prompt stand side by side
    assert [option for _, option in man] == [" yes", " no"] * 5
    assert prompts[0] == f"{MAN}\nAnswer:"
    assert "54-year-old woman" in prompts[2] and "She works" in prompts[2]
    assert prompts[6] == prompts[0]
    assert prompts[8] == f"The sky is blue. {MAN}\nAnswer:"
    # The edit that finds nothing is not asked, nor is its paraphrase.
    assert [prompt for prompt, _ in nobody[0::2]] == [
        f"{NOBODY}\nAnswer:", f"{NOBODY}\nAnswer:", f"The sky is blue. {NOBODY}\nAnswer:",
    ]  # fmt: skip
    record = samples[1]["lmrel"]
    assert record["conditions"] == ["original", "gender", "reworded", "again", "phrase"]
    assert record["applicable"] == [True, False, False, True, True]
    assert "nothing to change" in record["info"][1]["reason"]
    assert record["probabilities"][1] is None
    assert found["configs"]["t"]["metadata"]["lmrel_used"]["read"] == "loglikelihood"
    json.dumps(found["results"], allow_nan=False)


def test_items_without_a_rewording_are_told_with_the_reason(tmp_path, caplog):
    bias_task(tmp_path, [{"text": MAN}, {"text": "HIS KEYS"}], ["jsd_excess"], conditions=MADE)
    evaluate(OptionLM(by_length), tmp_path, "t")
    assert "task t: 1 item without text under condition reworded" in caplog.text
    assert "nothing in the text can be reworded" in caplog.text


def test_paraphrase_is_as_large_as_the_edit_and_keeps_its_words(tmp_path):
    metrics = ["edit_fraction_targeted", "edit_fraction_benign", "benign_missing_rate"]
    bias_task(tmp_path, [{"text": MAN}], metrics, conditions=MADE)
    row, found = results_of(OptionLM(by_length), tmp_path)
    reworded = found["samples"]["t"][0]["arguments"][4][0]
    assert reworded != f"{MAN}\nAnswer:"
    assert "54-year-old man" in reworded and "He works" in reworded and "2 weeks" in reworded
    # Words and marks: man and He of 35 tokens; one token more or less is as near as it gets.
    assert row["edit_fraction_targeted"] == pytest.approx(2 / 35)
    assert abs(row["edit_fraction_benign"] - 2 / 35) <= 1 / 35 + 1e-12
    assert row["benign_missing_rate"] == 0


def test_probabilities_are_the_renormalised_likelihoods_of_full_options(tmp_path):
    # Likelihoods of options need not sum to one.
    lm = OptionLM(lambda prompt: {"yes": 0.02, "no": 0.06})
    bias_task(tmp_path, [{"text": MAN}], ["jsd_rerun"], conditions=MADE)
    record = evaluate(lm, tmp_path, "t")["samples"]["t"][0]["lmrel"]
    for row in record["probabilities"]:
        assert row == pytest.approx(softmax([math.log(0.02), math.log(0.06)]))


def test_asked_again_gives_no_divergence_and_accuracy_is_that_of_the_original(tmp_path):
    items = [{"text": MAN, "answer": "yes"}, {"text": MAN + " He is tired.", "answer": "no"}]
    lm = OptionLM(lambda prompt: {"yes": 0.9, "no": 0.1} if "woman" in prompt else
                  {"yes": 0.4, "no": 0.6})  # fmt: skip
    metrics = [{"metric": "acc"}, "jsd_rerun", "flip_rate_rerun", "flip_rate_targeted"]
    stock = {"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True}
    bias_task(tmp_path, items, [*metrics, stock], conditions=MADE, doc_to_target="answer")
    row, _ = results_of(lm, tmp_path)
    assert row["jsd_rerun"] == 0 and row["flip_rate_rerun"] == 0
    assert row["flip_rate_targeted"] == 1
    assert row["acc@original"] == 0.5
    assert row["acc_norm"] == 0.5  # the harness's own metric, on the unedited text


def test_columns_and_frozen_texts(tmp_path):
    items = [{"text": f"text {i}", "edited": f"edited {i}"} for i in range(4)]
    items[3]["edited"] = ""
    frozen = tmp_path / "baselines.jsonl"
    lines = [{"kind": "lmrel paraphrases"}]
    lines.append({"item": item_key(items[0]), "targeted": "edited", "text": None, "reasons": ["x"]})
    lines.append({"item": item_key(items[0]), "targeted": "edited", "text": "frozen 0"})
    lines.append({"item": item_key(items[1]), "targeted": "other", "text": "frozen 1"})
    lines.append(
        {"item": item_key(items[2]), "targeted": "edited", "text": None, "reasons": ["too long"]}
    )
    frozen.write_text("".join(json.dumps(line) + "\n" for line in lines))
    conditions = [
        CONDITIONS[0],
        {"name": "edited", "role": "targeted", "field": "edited"},
        {"name": "kept", "role": "benign", "frozen": "baselines.jsonl"},
    ]
    bias_task(
        tmp_path, items, ["benign_missing_rate", "jsd_targeted", "applicable_rate"],
        conditions=conditions,
    )  # fmt: skip
    row, found = results_of(OptionLM(by_length), tmp_path)
    prompts = [[one[0] for one in s["arguments"][0::2]] for s in found["samples"]["t"]]
    assert prompts[0] == ["text 0\nAnswer:", "edited 0\nAnswer:", "frozen 0\nAnswer:"]
    assert prompts[1] == ["text 1\nAnswer:", "edited 1\nAnswer:"]  # matched to another edit
    assert prompts[3] == ["text 3\nAnswer:"]
    infos = [sample["lmrel"]["info"][2] for sample in found["samples"]["t"]]
    assert infos[2]["reason"] == "too long"
    assert row["benign_missing_rate"] == pytest.approx(2 / 3)
    complete = [s for s in found["samples"]["t"] if s["jsd_targeted"] is not None]
    assert len(complete) == 1


def test_baselines_named_on_the_command_line_replace_the_tasks_own(tmp_path, monkeypatch):
    items = [{"text": "text", "edited": "edited", "reworded": "shipped", "direction": None}]
    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps({"item": item_key(items[0]), "text": "own"}) + "\n")
    bias_task(tmp_path, items, ["jsd_benign"])
    asked = []
    for file in (None, own):
        if file:
            monkeypatch.setenv("LMREL_BASELINES", str(file))
        lm = OptionLM(by_length)
        evaluate(lm, tmp_path, "t")
        asked.append([prompt.split("\n")[0] for prompt, _ in lm.asked[0::2]])
    assert asked == [["text", "edited", "shipped"], ["text", "edited", "own"]]


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([{"name": "a", "role": "orginal"}], "role must be one of"),
        ([{"name": "a", "perturbation": "gender_swap"}], "role must be one of"),
        ([{"name": "a", "role": "targeted"}], "needs one of field"),
        ([{"name": "a", "role": "rerun", "field": "x"}], "asks the original again"),
        ([{"name": "a", "role": "targeted", "field": "x", "frozen": "y"}], "two sources"),
        ([{"name": "a", "role": "targeted", "perturbation": "sex"}], "unknown perturbation"),
        (
            [{"name": "a", "role": "targeted", "perturbation": "age_plus", "arguments": {"m": 1}}],
            "takes no 'm'",
        ),
        ([{"name": "a", "role": "benign", "paraphrase": "gpt"}], "lmrel paraphrase"),
        ([{"name": "a", "role": "targeted", "field": "x"}], "exactly one of role original"),
        (
            [CONDITIONS[0], {"name": "b", "role": "benign", "field": "x", "of": "c"}],
            "targeted conditions are",
        ),
    ],
)
def test_bad_conditions_are_refused_by_name(conditions, words):
    with pytest.raises(ValueError, match=words):
        read_conditions("t", conditions, "text")


def test_a_source_needs_a_field_to_go_to():
    with pytest.raises(ValueError, match=r"metadata\.lmrel\.text"):
        read_conditions("t", [{"name": "a", "role": "targeted", "perturbation": "gender_swap"}])


def test_missing_column_names_the_fields(tmp_path):
    bias_task(tmp_path, [{"text": "a"}], ["jsd_targeted"])
    with pytest.raises(ValueError, match=r"no field 'edited'; its fields: text"):
        evaluate(OptionLM(by_length), tmp_path, "t")


# Reading from drawn answers --------------------------------------------------------------------


def test_samples_are_shares_of_canonical_answers_and_refusals_are_missing(tmp_path):
    answers = {
        "text": ["Yes ", "yes", "YES.", "no"],
        "edited": ["No.", "no", "No", "I'm sorry, but I can't answer that."],
        "reworded": ["I cannot help with that."] * 4,
    }
    items = [{key: f"{key} 0" for key in answers} | {"direction": None}]

    def answer(prompt, run):
        return answers[prompt.split()[0]][run]

    again = [*CONDITIONS, {"name": "again", "role": "rerun"}]
    bias_task(
        tmp_path, items, ["jsd_targeted", "benign_missing_rate"], conditions=again,
        settings={"read": "samples", "samples": 4},
    )  # fmt: skip
    lm = ScriptedLM(answer)
    row, found = results_of(lm, tmp_path)
    record = found["samples"]["t"][0]["lmrel"]
    assert record["read"] == "samples"
    assert found["configs"]["t"]["metadata"]["lmrel_used"]["read"] == "samples"
    assert record["probabilities"] == [[0.75, 0.25], [0.0, 1.0], None, [0.75, 0.25]]
    assert row["benign_missing_rate"] == 1.0
    assert "jsd_targeted" not in row  # refusals make no comparison
    seeds = {}
    for prompt, _, seed in lm.asked:
        seeds.setdefault(prompt, []).append(seed)
    assert len(set(seeds["text 0\nAnswer:"])) == 8  # asked again with other seeds


def test_composed_and_decomposed_answers_are_one(tmp_path):
    items = [{"text": "a", "edited": "b", "reworded": "c", "direction": None}]
    forms = {"a": "sí", "b": "sí", "c": "SÍ "}
    bias_task(
        tmp_path, items, ["flip_rate_targeted", "flip_rate_benign"], doc_to_choice=["sí", "no"],
        settings={"read": "samples", "samples": 2},
    )  # fmt: skip
    row, _ = results_of(ScriptedLM(lambda prompt, run: forms[prompt[0]]), tmp_path)
    assert row["flip_rate_targeted"] == 0 and row["flip_rate_benign"] == 0


def test_refusals_never_create_significance(tmp_path):
    items = [
        {"text": f"text {i}", "edited": f"edited {i}", "reworded": f"reworded {i}",
         "direction": None} for i in range(40)
    ]  # fmt: skip

    def answer(prompt, run):
        kind, number, *_ = prompt.split()
        if kind == "edited" and int(number) % 2:
            return "I'm sorry, I can't help with that."
        return "yes" if int(number) % 3 else "no"

    bias_task(
        tmp_path, items, ["flip_excess", "jsd_excess", "flip_rate_targeted"],
        settings={"read": "samples", "samples": 2},
    )  # fmt: skip
    row, _ = results_of(ScriptedLM(answer), tmp_path)
    assert row["flip_rate_targeted"] == 0
    assert row["flip_excess_p"] == 1 and row["jsd_excess_p"] == 1


# Reading from the first token ------------------------------------------------------------------


def test_first_token_counts_for_the_one_option_that_it_begins():
    candidates = [("Yes", math.log(0.5)), (" yes", math.log(0.1)), ("N", math.log(0.2)),
                  ("", math.log(0.1)), ("Maybe", math.log(0.05))]  # fmt: skip
    found = first_token_probabilities(candidates, ["yes", "no"])
    assert found == pytest.approx([0.6 / 0.8, 0.2 / 0.8])
    # A token that begins two options says nothing; a whole option does.
    assert first_token_probabilities([("un", -1.0)], ["unsafe", "unclear"]) is None
    assert first_token_probabilities([("no", -1.0)], ["no", "not sure"]) == pytest.approx([1, 0])


def test_first_tokens_of_both_api_formats():
    chat = {"logprobs": {"content": [
        {"token": "No", "logprob": -0.1, "top_logprobs": [{"token": "Yes", "logprob": -2.5}]},
        {"token": ".", "logprob": -0.1},
    ]}}  # fmt: skip
    assert first_tokens(chat) == [("No", -0.1), ("Yes", -2.5)]
    plain = {"logprobs": {"tokens": [" no"], "token_logprobs": [-0.2],
                          "top_logprobs": [{" no": -0.2, " yes": -1.9}]}}  # fmt: skip
    assert first_tokens(plain) == [(" no", -0.2), (" yes", -1.9)]
    assert first_tokens({"logprobs": None}) is None


def _yes_or_no(payload, logprobs=True):
    """Says yes with probability 0.8 to a text with "edited", 0.3 to others."""
    p = 0.8 if "edited" in payload["messages"][-1]["content"] else 0.3
    word = "Yes" if p > 0.5 else "No"
    top = [
        {"token": "Yes", "logprob": math.log(p)},
        {"token": "No", "logprob": math.log(1 - p)},
    ]
    choice = {"message": {"content": word}, "finish_reason": "length"}
    if logprobs and payload.get("logprobs"):
        best = {"token": word, "logprob": math.log(max(p, 1 - p))}
        choice["logprobs"] = {"content": [{**best, "top_logprobs": top}]}
    return choice


@pytest.fixture
def chat_model(request):
    from lm_eval.models.openai_completions import LocalChatCompletion

    with chat_server(getattr(request, "param", _yes_or_no)) as server:
        yield LocalChatCompletion(
            base_url=f"{server.url}/chat/completions", model="m", tokenizer_backend=None,
            num_concurrent=2,
        )  # fmt: skip


ONE = [{"text": "a text", "edited": "edited", "reworded": "a wording", "direction": None}]


def test_chat_apis_are_read_from_the_first_token(tmp_path, chat_model, caplog):
    bias_task(tmp_path, ONE, ["jsd_targeted", "jsd_benign", "flip_rate_targeted"])
    row, found = results_of(chat_model, tmp_path, apply_chat_template=True)
    record = found["samples"]["t"][0]["lmrel"]
    assert record["read"] == "first_token"
    assert "no log-likelihoods" in caplog.text
    assert record["probabilities"][0] == pytest.approx([0.3, 0.7])
    assert record["probabilities"][1] == pytest.approx([0.8, 0.2])
    assert row["flip_rate_targeted"] == 1 and row["jsd_benign"] == 0


@pytest.mark.parametrize("chat_model", [partial(_yes_or_no, logprobs=False)], indirect=True)
def test_chat_apis_without_log_probabilities_say_what_to_do(tmp_path, chat_model, monkeypatch):
    bias_task(tmp_path, ONE, ["jsd_targeted"])
    with pytest.raises(RuntimeError, match="LMREL_READ=samples"):
        evaluate(chat_model, tmp_path, "t", apply_chat_template=True)
    monkeypatch.setenv("LMREL_READ", "samples")
    row, found = results_of(chat_model, tmp_path, apply_chat_template=True)
    assert found["samples"]["t"][0]["lmrel"]["probabilities"][1] == [1.0, 0.0]
    assert row["jsd_targeted"] == pytest.approx(1.0)  # all no against all yes


def test_chat_apis_refuse_loglikelihood_when_it_is_asked_for(tmp_path, chat_model):
    bias_task(tmp_path, ONE, ["jsd_targeted"], settings={"read": "loglikelihood"})
    with pytest.raises(ValueError, match="chat APIs give no log-likelihoods"):
        evaluate(chat_model, tmp_path, "t", apply_chat_template=True)


def test_unknown_reading_is_refused(tmp_path):
    bias_task(tmp_path, ONE, ["jsd_targeted"], settings={"read": "guess"})
    with pytest.raises(ValueError, match="loglikelihood, first_token, samples"):
        evaluate(OptionLM(by_length), tmp_path, "t")


def test_limit_and_predict_only_work(tmp_path):
    items = [{"text": f"{MAN} {i}"} for i in range(3)]
    bias_task(tmp_path, items, ["jsd_targeted"], conditions=MADE)
    found = evaluate(OptionLM(by_length), tmp_path, "t", limit=1, predict_only=True)
    assert len(found["samples"]["t"]) == 1
    assert found["samples"]["t"][0]["lmrel"]["probabilities"][0] is not None
