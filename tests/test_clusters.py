"""Classes of open answers by embedding or judge."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from lmrel_tasks.filters.clusters import (
    ClusterFilter,
    cluster_embeddings,
    cluster_judged,
    embedding_classes,
)
from lmrel_tasks.run import Run

SYNONYMS = [{"paris", "city of light", "capital of france"}, {"london", "the big smoke"}]


def encode(texts):
    """Texts of one meaning nearly coincide; others are orthogonal."""
    meanings = [next((i for i, one in enumerate(SYNONYMS) if t in one), None) for t in texts]
    vectors = np.zeros((len(texts), 64), dtype=np.float32)
    for row, (text, meaning) in enumerate(zip(texts, meanings, strict=True)):
        vectors[row, meaning if meaning is not None else 2 + hash(text) % 62] = 1.0
    return vectors


def same(questions):
    return [
        next((at for at, one in enumerate(known)
              if any({one, answer} <= group for group in SYNONYMS)), None)
        for _, known, answer in questions
    ]  # fmt: skip


def test_classes_are_the_components_of_the_threshold_graph():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(120, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for threshold in (0.8, 0.9, 0.97, 0.995):
        graph = vectors @ vectors.T >= threshold
        count, expected = connected_components(graph, directed=False)
        found = embedding_classes(vectors, threshold)
        assert len(np.unique(found)) == count > 1
        pairs = found[:, None] == found[None, :]
        assert (pairs == (expected[:, None] == expected[None, :])).all()


def test_equal_vectors_are_one_class_and_single_link_is_transitive():
    assert embedding_classes(np.tile([0.6, 0.8], (10, 1)), 1.0).tolist() == [0] * 10
    angles = np.deg2rad([0, 20, 40, 90])
    chain = np.c_[np.cos(angles), np.sin(angles)]
    assert embedding_classes(chain, 0.9).tolist() == [0, 0, 0, 1]  # cos 20 = .94, cos 40 = .77
    assert embedding_classes(np.empty((0, 3))).tolist() == []


def cluster(way, items, labels):
    if way == "embedding":
        return cluster_embeddings(items, labels, encode, 0.8)
    return cluster_judged(items, labels, ["Where?"] * len(items), same)


@pytest.mark.parametrize("way", ["embedding", "judge"])
def test_a_class_bears_the_label_that_it_means_or_its_most_frequent_answer(way):
    answers = ["city of light", "city of light", "capital of france", "london", "", "refusal"]
    named = cluster(way, [answers, answers, answers], [None, ["paris"], ["rome"]])
    own = ["city of light"] * 3 + ["london", "", "refusal"]
    assert named[0] == named[2] == own
    assert named[1] == ["paris"] * 3 + ["london", "", "refusal"]


@pytest.mark.parametrize("way", ["embedding", "judge"])
def test_labels_do_not_form_classes(way):
    # Two answers that only the label would link stay two classes.
    answers = ["paris", "london"]
    (named,) = cluster(way, [answers], [["city of light", "the big smoke"]])
    assert named == ["city of light", "the big smoke"]
    assert cluster(way, [["", "refusal"], []], [["paris"], []]) == [["", "refusal"], []]


def test_the_embedder_sees_distinct_texts_once():
    seen = []

    def counting(texts):
        seen.append(list(texts))
        return encode(texts)

    cluster_embeddings([["paris"] * 9 + ["london"], ["paris"]], [["paris"], None], counting)
    assert seen == [["paris", "london"]]


def test_unplaced_answers_are_classes_of_their_own():
    named = cluster_judged([["a", "b", "a"]], [["c"]], [None], lambda asked: [None] * len(asked))
    assert named == [["a", "b", "a"]]


def test_filter_checks_its_arguments():
    with pytest.raises(ValueError, match="kind must be one of"):
        ClusterFilter(kind="meaning")
    with pytest.raises(ValueError, match="needs `judge:`"):
        ClusterFilter(kind="judge")
    with pytest.raises(ValueError, match="threshold must lie in"):
        ClusterFilter(threshold=85)
    with pytest.raises(ValueError, match="no field 'gold'"):
        ClusterFilter(target="gold").apply([[Run("x")]], [{"answer": "x"}])


@pytest.mark.parametrize("kind", ["embedding", "judge"])
def test_filter_in_the_harness(tmp_path, monkeypatch, kind):
    from fakes import ScriptedLM, evaluate, write_task

    from lmrel_tasks import plugin

    monkeypatch.setattr(plugin.Cluster, "encoder", staticmethod(lambda model: encode))
    monkeypatch.setattr(plugin.Cluster, "matcher", staticmethod(lambda judge, model: same))
    items = [{"question": "capital of France?", "answer": "Paris"},
             {"question": "capital of England?", "answer": "London"}]  # fmt: skip
    step = {"function": "cluster", "kind": kind, "target": "answer", "question": "question"}
    if kind == "judge":
        step["judge"] = "http://127.0.0.1:9/v1"
    metrics = [{"metric": "acc"}, {"metric": "answer_agreement"}, {"metric": "reliability_level"}]
    write_task(
        tmp_path, "open", items, metric_list=metrics,
        filter_list=[{"name": "none", "filter": [{"function": "answer", "kind": "text"}, step]}],
    )  # fmt: skip
    texts = ["City of Light.", "The capital of France", "Paris", "London"]
    found = evaluate(ScriptedLM(lambda prompt, index: texts[index]), tmp_path, "open")
    scores = found["results"]["open"]
    # France: 3 of 4 runs right in one class; England: 1 of 4, behind them.
    assert scores["acc,none"] == pytest.approx(0.5)
    assert scores["answer_agreement,none"] == pytest.approx(0.5)
    assert scores["reliability_level,none"] == pytest.approx(1 / 3)


def test_classes_made_afterwards_cannot_stop_sampling(tmp_path):
    from fakes import ScriptedLM, evaluate, write_task

    steps = [{"function": "answer", "kind": "text"}, {"function": "cluster", "target": "answer"}]
    write_task(
        tmp_path,
        "stopped",
        [{"question": "q", "answer": "a"}],
        filter_list=[{"name": "none", "filter": steps}],
        metadata={"version": 1, "lmrel": {"stopping": {"rule": "curtail"}}},
    )
    with pytest.raises(ValueError, match="cannot go with `behaviour` or `cluster`"):
        evaluate(ScriptedLM(lambda prompt, index: "a"), tmp_path, "stopped")
