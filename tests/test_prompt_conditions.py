"""Conditions of one task: templates, system prompts, shots, option orders and temperatures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fakes import ScriptedLM, evaluate, write_task

from lmrel_tasks.option_order import permutation, rearranged
from lmrel_tasks.run import Capture, Run

OPTIONS = ["red", "green", "blue", "black"]
LETTERS = "ABCD"
QUIZ = [
    {"question": f"q{i}?", "choices": OPTIONS[i % 4 :] + OPTIONS[: i % 4], "answer": "ABCD"[i % 3]}
    for i in range(8)
]
ASKED = (
    "{{question}}\n{% for one in choices %}{{'ABCD'[loop.index0]}}. {{one}}\n{% endfor %}Answer:"
)
FIELDS = {"option_fields": {"choices": "choices", "answer": "answer"}}


def quiz(folder: Path, conditions: list[dict], **changes) -> None:
    lmrel = {"conditions": conditions, **FIELDS, **changes.pop("lmrel", {})}
    settings = {
        "doc_to_text": ASKED,
        "filter_list": [{"name": "none", "filter": [
            {"function": "answer", "kind": "mcq", "choices": "choices"}]}],
        "metric_list": [{"metric": "acc"}, {"metric": "answer_reproducibility"},
                        {"metric": "fleiss_kappa"}],
        "metadata": {"lmrel": lmrel},
    }  # fmt: skip
    write_task(folder, "t", QUIZ, **{**settings, **changes})


def shown(prompt: str) -> dict[str, str]:
    """Letter -> text of the options in a prompt."""
    return dict(
        line.split(". ", 1)
        for line in prompt.splitlines()
        if line[1:3] == ". " and line[0] in LETTERS
    )


def right_text(prompt: str) -> str:
    row = next(row for row in QUIZ if prompt.rsplit("q", 1)[1].startswith(row["question"][1:]))
    return row["choices"][LETTERS.index(row["answer"])]


def knows(prompt: str, run: int) -> str:
    """A model that knows the right words, and answers with their letter in this prompt."""
    asked = prompt[prompt.rindex("q") :]
    return next(letter for letter, text in shown(asked).items() if text == right_text(prompt))


ORDERS = [
    {"name": "as_is"},
    {"name": "reversed", "option_order": "reversed"},
    {"name": "one", "option_order": 1},
    {"name": "two", "option_order": 2},
]


def test_labels_follow_the_options(tmp_path) -> None:
    quiz(tmp_path, ORDERS)
    results = evaluate(ScriptedLM(knows), tmp_path, "t")
    row = results["results"]["t"]
    assert row["acc,none"] == row["acc@reversed,none"] == row["acc@two,none"] == 1
    assert row["answer_reproducibility,none"] == 1
    texts = set()
    for sample, doc in zip(results["samples"]["t"], QUIZ, strict=True):
        assert sample["doc"]["choices"] == doc["choices"]
        prompts = [arguments[0] for arguments in sample["arguments"]]
        assert list(shown(prompts[1]).values()) == doc["choices"][::-1]
        for prompt, cell, runs in zip(
            prompts, sample["resps"], sample["lmrel"]["runs"], strict=True
        ):
            assert sorted(shown(prompt).values()) == sorted(doc["choices"])
            # The letter given names the right words here; the letter kept is the document's.
            assert shown(prompt)[cell[0]] == right_text(prompt)
            assert runs[0]["answer"] == doc["answer"] == sample["lmrel"]["labels"][0]
            texts.add(cell[0])
    assert len(texts) == 4


def test_a_model_that_prefers_a_letter_is_found_out(tmp_path) -> None:
    quiz(tmp_path, ORDERS)
    results = evaluate(ScriptedLM(lambda p, r: "A"), tmp_path, "t")
    row = results["results"]["t"]
    chosen = np.array(
        [[cell[0]["answer"] for cell in s["lmrel"]["runs"]] for s in results["samples"]["t"]]
    )
    # "A" is another option of the document under another order.
    for doc, letters in zip(QUIZ, chosen, strict=True):
        assert letters[0] == "A" and letters[1] == "D"
        assert doc["choices"][LETTERS.index(letters[1])] == doc["choices"][-1]
    right = chosen == np.array([[doc["answer"]] for doc in QUIZ])
    assert row["acc,none"] == pytest.approx(right.mean())
    pairs = [
        np.mean([a == b for k, a in enumerate(letters) for b in letters[k + 1 :]])
        for letters in chosen
    ]
    assert row["answer_reproducibility,none"] == pytest.approx(np.mean(pairs))
    assert np.mean(pairs) < 0.5


def test_harness_metrics_see_the_rearranged_label(tmp_path) -> None:
    quiz(tmp_path, ORDERS, metric_list=[{"metric": "exact_match"}, {"metric": "acc"}])
    row = evaluate(ScriptedLM(knows), tmp_path, "t")["results"]["t"]
    assert row["exact_match,none"] == row["acc,none"] == 1


def test_rearranged_item_stays_out_of_its_own_shots(tmp_path) -> None:
    quiz(
        tmp_path, ORDERS, num_fewshot=7, fewshot_split="test",
        fewshot_config={"sampler": "default", "split": "test"},
    )  # fmt: skip
    results = evaluate(ScriptedLM(knows), tmp_path, "t")
    assert results["results"]["t"]["acc,none"] == 1
    for sample in results["samples"]["t"]:
        for arguments in sample["arguments"]:
            asked = Counter(line for line in arguments[0].splitlines() if line.endswith("?"))
            assert len(asked) == 8 and set(asked.values()) == {1}


def test_orders_depend_on_the_item_and_the_seed_only() -> None:
    drawn = {(seed, key): permutation(5, seed, key) for seed in range(20) for key in "abcdefgh"}
    assert all(sorted(order) == list(range(5)) for order in drawn.values())
    assert len(set(drawn.values())) > 60
    assert drawn[3, "a"] == permutation(5, 3, "a")
    assert permutation(4, "reversed", "x") == (3, 2, 1, 0)


@pytest.mark.parametrize(
    ("choices", "label", "moved_choices", "moved_label"),
    [
        (["w", "x", "y"], 0, ["y", "x", "w"], 2),
        (["w", "x", "y"], "A", ["y", "x", "w"], "C"),
        (["w", "x", "y"], "w", ["y", "x", "w"], "w"),
        (["w", "x", "y"], ["A", "B"], ["y", "x", "w"], ["C", "B"]),
        ({"A": "w", "B": "x", "C": "y"}, "C", {"A": "y", "B": "x", "C": "w"}, "A"),
        ({"text": ["w", "x", "y"], "label": ["1", "2", "3"]}, "1",
         {"text": ["y", "x", "w"], "label": ["1", "2", "3"]}, "3"),
    ],
)  # fmt: skip
def test_every_form_of_options_and_label(choices, label, moved_choices, moved_label) -> None:
    doc = {"q": "?", "o": choices, "a": label}
    moved = rearranged(doc, {"choices": "o", "answer": "a"}, "reversed", "key")
    assert (moved["o"], moved["a"], moved["q"]) == (moved_choices, moved_label, "?")
    assert doc == {"q": "?", "o": choices, "a": label}
    assert moved == doc and not (moved != doc)  # noqa: SIM202
    assert moved.original_letter("A") == "C" and moved.original_letter("refusal") == "refusal"


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        ({"o": ["x", "y"]}, "option_fields.answer: the document has no field 'a'"),
        ({"o": ["x", "y"], "a": "Z"}, "field 'a': 'Z' is neither a place"),
        ({"o": ["x", "y"], "a": 2}, "neither a place"),
        ({"o": "xy", "a": "x"}, "holds no list or mapping"),
        ({"o": ["x"], "a": "x"}, "2 to 26"),
    ],
)
def test_documents_that_cannot_be_rearranged(doc, words) -> None:
    with pytest.raises(ValueError, match=words):
        rearranged(doc, {"choices": "o", "answer": "a"}, 1, "key")


def test_templates_systems_shots_and_temperatures(tmp_path) -> None:
    items = [{"question": f"q{i}?", "answer": "yes"} for i in range(4)]
    shots = [{"question": f"s{i}?", "answer": "yes", "long": f"because {i}"} for i in range(6)]
    write_task(
        tmp_path, "t", items, num_fewshot=2,
        fewshot_config={"sampler": "default", "samples": shots},
        metadata={"lmrel": {"conditions": [
            {"name": "plain"},
            {"name": "polite", "doc_to_text": "Please: {{question}}"},
            {"name": "doctor", "system": "You are a doctor."},
            {"name": "shots1", "fewshot_seed": 1},
            {"name": "shots2", "fewshot_seed": 2},
            {"name": "reasons", "fewshot_target": "{{long}}"},
            {"name": "zero", "num_fewshot": 0},
            {"name": "hot", "generation_kwargs": {"temperature": 1.5}},
        ]}},
    )  # fmt: skip
    samples = evaluate(ScriptedLM(lambda p, r: "yes"), tmp_path, "t")["samples"]["t"]
    seen = set()
    for sample in samples:
        names = sample["lmrel"]["conditions"]
        text = {n: a[0] for n, a in zip(names, sample["arguments"], strict=True)}
        heat = {n: a[1]["temperature"] for n, a in zip(names, sample["arguments"], strict=True)}
        shot = {n: [w for w in p.split() if w.startswith("s")] for n, p in text.items()}
        assert text["plain"].count("?") == 3 and text["zero"] == sample["doc"]["question"]
        assert text["polite"].count("Please: ") == 3
        assert shot["plain"] == shot["polite"] == shot["hot"] == shot["reasons"]
        assert text["doctor"] == f"You are a doctor.\n\n{text['plain']}"
        assert text["reasons"].count("because") == 2 and "because" not in text["plain"]
        assert heat["hot"] == 1.5 and heat["plain"] == 1.0
        seen.add((tuple(shot["shots1"]), tuple(shot["shots2"])))
    assert len({one for pair in seen for one in pair}) > 4


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"option_order": "shuffled"}, "option_order is 'reversed' or a seed"),
        ({"option_order": 1.5}, "option_order must be int or str"),
        ({"fewshot_seed": "one"}, "fewshot_seed must be int"),
        ({"num_fewshot": -1}, "num_fewshot must not be negative"),
        ({"system": 3}, "system must be str"),
    ],
)
def test_bad_conditions_name_the_field(tmp_path, condition, words) -> None:
    quiz(tmp_path, [{"name": "x", **condition}])
    with pytest.raises((TypeError, ValueError), match=rf"task t: .*conditions\[0\] \(x\).*{words}"):
        evaluate(ScriptedLM(knows), tmp_path, "t")


def test_option_order_says_what_it_needs(tmp_path) -> None:
    quiz(tmp_path, ORDERS, metadata={"lmrel": {"conditions": ORDERS}})
    with pytest.raises(ValueError, match="condition reversed has an option_order; say where"):
        evaluate(ScriptedLM(knows), tmp_path, "t")
    quiz(tmp_path, ORDERS, filter_list=None)
    with pytest.raises(ValueError, match="needs a filter `answer` of kind mcq"):
        evaluate(ScriptedLM(knows), tmp_path, "t")


# Rows of the results -----------------------------------------------------------------------------


def certain(prompt: str, run: int) -> Run:
    bits = 0.2 + 0.1 * run + (0.3 if prompt.startswith("Please") else 0.0)
    return Run("yes", Capture(entropy=bits, certainty=1 - bits / np.log2(30), tokens=1))


TWO = [{"name": "plain"}, {"name": "polite", "doc_to_text": "Please: {{question}}"}]
PLAIN = [{"question": f"q{i}?", "answer": "yes"} for i in range(4)]


def test_rows_of_single_conditions(tmp_path) -> None:
    write_task(
        tmp_path, "t", PLAIN, metadata={"lmrel": {"conditions": TWO}},
        metric_list=[
            {"metric": "internal_repeatability"}, {"metric": "internal_reproducibility"},
            {"metric": "acc", "per_condition": False}, {"metric": "missing_rate"},
        ],
    )  # fmt: skip
    row = evaluate(ScriptedLM(certain), tmp_path, "t")["results"]["t"]
    first, second = 1 - 0.35 / np.log2(30), 1 - 0.65 / np.log2(30)
    assert row["internal_repeatability@plain,none"] == pytest.approx(first)
    assert row["internal_repeatability@polite,none"] == pytest.approx(second)
    assert row["internal_repeatability,none"] == pytest.approx((first + second) / 2)
    assert row["internal_reproducibility,none"] == pytest.approx(1 - (first - second))
    assert row["internal_repeatability@polite_stderr,none"] == pytest.approx(0, abs=1e-9)
    assert "acc@plain,none" not in row and "missing_rate@plain,none" not in row


@pytest.mark.parametrize("preset", ["shyr-v1", "rs-0.1", "rs-0.3"])
def test_preset_names_its_rows(tmp_path, preset) -> None:
    write_task(
        tmp_path, "t", PLAIN, metadata={"lmrel": {"conditions": TWO, "preset": preset}},
        metric_list=[{"metric": name} for name in
                     ("internal_repeatability", "internal_reproducibility", "answer_agreement")],
    )  # fmt: skip
    row = evaluate(ScriptedLM(certain), tmp_path, "t")["results"]["t"]
    bits = np.array([[0.2, 0.3, 0.4, 0.5], [0.5, 0.6, 0.7, 0.8]])
    certainty = 1 - bits / np.log2(30)
    expected = {
        "shyr-v1": (-bits.mean(axis=1) * np.log(2), -0.3 * np.log(2)),
        "rs-0.1": (certainty.mean(axis=1), 1 - 0.3 / np.log2(30)),
        "rs-0.3": (1 - 2 * certainty.std(axis=1), 1 - 2 * certainty.mean(axis=1).std()),
    }[preset]
    name = f"internal_repeatability:{preset}"
    assert row[f"{name}@plain,none"] == pytest.approx(expected[0][0])
    assert row[f"{name}@polite,none"] == pytest.approx(expected[0][1])
    assert row[f"{name},none"] == pytest.approx(np.mean(expected[0]))
    assert row[f"internal_reproducibility:{preset},none"] == pytest.approx(expected[1])
    assert row["answer_agreement,none"] == 1 and "internal_repeatability,none" not in row


def test_unknown_preset_is_refused(tmp_path) -> None:
    write_task(tmp_path, "t", PLAIN, metadata={"lmrel": {"preset": "rs-0.2"}})
    with pytest.raises(ValueError, match=r"metadata.lmrel.preset must be one of shyr-v1, rs-0.1"):
        evaluate(ScriptedLM(certain), tmp_path, "t")


def test_one_condition_leaves_reproducibility_out_and_says_why(tmp_path, caplog) -> None:
    write_task(tmp_path, "t", PLAIN, metric_list=[
        {"metric": "acc"}, {"metric": "answer_reproducibility"}])  # fmt: skip
    row = evaluate(ScriptedLM(certain), tmp_path, "t")["results"]["t"]
    assert "answer_reproducibility,none" not in row and row["acc,none"] == 1
    assert "the task declares one condition only" in caplog.text


# Embeddings --------------------------------------------------------------------------------------


class Encoder:
    """Unit vectors from texts; counts what it is asked for, and how many vectors are alive."""

    def __init__(self, dimensions: int = 6) -> None:
        self.calls: list[list[str]] = []
        self.dimensions = dimensions

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.calls.append(list(texts))
        rows = [np.random.default_rng(list(t.encode())).normal(size=self.dimensions) for t in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


def test_every_text_is_embedded_once_whatever_the_block() -> None:
    from lmrel_tasks.filters.embed import cell_vectors

    rng = np.random.default_rng(0)
    cells = [[f"t{k}" for k in rng.integers(0, 40, 5)] for _ in range(30)]
    cells[3] = ["", "t1", " "]
    cells[7] = []
    cells[8] = [""]
    whole = list(cell_vectors(cells, Encoder()))
    for block in (1, 7, 1000):
        encoder = Encoder()
        parts = list(cell_vectors(cells, encoder, block=block))
        asked = [text for call in encoder.calls for text in call]
        assert sorted(asked) == sorted({t for c in cells for t in c if t.strip()})
        for one, other in zip(parts, whole, strict=True):
            np.testing.assert_array_equal(one, other)
    assert whole[7] is None and whole[8] is None
    assert np.isnan(whole[3][[0, 2]]).all() and not np.isnan(whole[3][1]).any()


def test_sums_stand_for_vectors(tmp_path, monkeypatch) -> None:
    from lmrel_tasks import plugin

    encoder = Encoder()
    monkeypatch.setattr(plugin.Embed, "encoder", staticmethod(lambda model: encoder))
    names = ("semantic_repeatability", "semantic_reproducibility", "semantic_alpha_repeatability",
             "var_run")  # fmt: skip
    rows = []
    for keep in (False, True):
        write_task(
            tmp_path, "t", PLAIN, metadata={"lmrel": {"conditions": TWO}},
            filter_list=[{"name": "none", "filter": [
                {"function": "answer"}, {"function": "embed", "keep": keep}]}],
            metric_list=[{"metric": name} for name in names],
        )  # fmt: skip
        lm = ScriptedLM(lambda p, r: f"{p[-3:]} {'ab'[r % 2]} {p[:2]}")
        rows.append(evaluate(lm, tmp_path, "t")["results"]["t"])
    for name in names:
        assert rows[0][f"{name},none"] == pytest.approx(rows[1][f"{name},none"])
    assert len(encoder.calls[0]) == 4 * 2 * 2


def test_no_copy_of_embeddings_stays(tmp_path, monkeypatch) -> None:
    """3,000 runs with vectors of 2,000 numbers would be 24 MB; their sums are 1 MB."""
    import gc
    import tracemalloc

    from lmrel_tasks import plugin

    items = [{"question": f"q{i}?", "answer": "yes"} for i in range(6)]
    monkeypatch.setattr("lmrel_tasks.filters.embed.BLOCK", 100)
    write_task(
        tmp_path, "t", items, repeats=100,
        metadata={"lmrel": {"conditions": [{"name": str(p)} for p in range(5)]}},
        filter_list=[{"name": "none", "filter": [{"function": "embed"}]}],
        metric_list=[{"metric": "semantic_repeatability"}, {"metric": "semantic_reproducibility"},
                     {"metric": "var_run"}],
    )  # fmt: skip
    peaks = []

    def encoder(model):
        inner = Encoder(2000)

        def encode(texts):
            gc.collect()
            peaks.append(tracemalloc.get_traced_memory()[0])
            return inner(texts)

        return encode

    monkeypatch.setattr(plugin.Embed, "encoder", staticmethod(encoder))
    count = iter(range(10**6))
    tracemalloc.start()
    evaluate(ScriptedLM(lambda p, r: f"text {next(count)}"), tmp_path, "t", log_samples=False)
    tracemalloc.stop()
    assert len(peaks) == 30
    assert peaks[-1] - peaks[1] < 4e6


def test_recorded_answers_survive_json(tmp_path) -> None:
    quiz(tmp_path, ORDERS)
    samples = evaluate(ScriptedLM(knows), tmp_path, "t")["samples"]["t"]
    again = json.loads(json.dumps(samples[0], default=str))
    assert again["lmrel"]["conditions"] == [one["name"] for one in ORDERS]
