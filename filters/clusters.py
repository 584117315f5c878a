"""Classes of open answers: by meaning, not by spelling.

Two ways: `embedding_classes` (cosine of sentence embeddings, single link) and `match_classes`
(a judge model picks the earlier answer that means the same). Only distinct strings are compared.
Acceptable answers take no part in forming the classes, so that the classes of an item do not
depend on its label; afterwards each is matched to at most one class, which then bears its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from lm_eval.api.filter import Filter
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.filters.answer import as_run, give_answer, texts_of
from lmrel_tasks.filters.canonical import REFUSAL, canonical
from lmrel_tasks.labels import acceptable
from lmrel_tasks.run import Run

KINDS = ("embedding", "judge")
THRESHOLD = 0.85

Encode = Callable[[list[str]], NDArray[np.float32]]
# (question or None, candidates, answer) -> position of the candidate that means the same, or None
Match = Callable[[Sequence[tuple[str | None, tuple[str, ...], str]]], list[int | None]]


def embedding_classes(vectors: ArrayLike, threshold: float = THRESHOLD) -> NDArray[np.int64]:
    """Classes of texts whose embeddings are close, joined by union-find.

    Args:
        vectors: (u, d), one unit vector per distinct text; NaN rows stay alone.
        threshold: least cosine at which two texts are joined. Joins are transitive.

    Returns:
        (u,) class numbers, from 0 in the order of first members.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    parent = list(range(len(rows)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    # Rounding must not part equal vectors at threshold 1.
    close = rows @ rows.T >= threshold - 1e-6 if len(rows) else np.zeros((0, 0), dtype=bool)
    for i, j in zip(*np.nonzero(np.triu(close, 1)), strict=True):
        first, second = sorted((root(int(i)), root(int(j))))
        parent[second] = first
    return np.unique([root(i) for i in range(len(rows))], return_inverse=True)[1].astype(np.int64)


def cluster_embeddings(
    items: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str] | None],
    encode: Encode,
    threshold: float = THRESHOLD,
) -> list[list[str]]:
    """Answers of all items, each replaced by the name of its class.

    Args:
        items: per item, the answers of its runs; ``""`` and refusals keep their own class.
        labels: per item, its acceptable answers, or None.
        encode: texts -> unit vectors (len(texts), d); called once, with distinct texts.
        threshold: least cosine of answers of one class.

    Returns:
        per item, one name per run: an acceptable answer for the class nearest to it (at or above
        the threshold), else the most frequent answer of the class.
    """
    check_threshold(threshold)
    wanted = [_distinct(answers) for answers in items]
    every = dict.fromkeys(text for texts in wanted for text in texts)
    every.update(dict.fromkeys(label for one in labels for label in one or ()))
    vectors = dict(zip(every, encode(list(every)), strict=True)) if every else {}
    result = []
    for answers, texts, right in zip(items, wanted, labels, strict=True):
        if not texts:
            result.append(list(answers))
            continue
        own = np.array([vectors[text] for text in texts], dtype=np.float64)
        classes = embedding_classes(own, threshold).tolist()
        nearest: list[tuple[str, int]] = []
        for label in right or ():
            cosines = own @ np.asarray(vectors[label], dtype=np.float64)
            best = int(cosines.argmax())
            if cosines[best] >= threshold - 1e-6:
                nearest.append((label, classes[best]))
        result.append(_named(answers, dict(zip(texts, classes, strict=True)), nearest))
    return result


def cluster_judged(
    items: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str] | None],
    questions: Sequence[str | None],
    match: Match,
) -> list[list[str]]:
    """As `cluster_embeddings`, by a judge that sees question, known classes and a new answer.

    Args:
        questions: per item, what was asked, or None.
        match: answers many ``(question, candidates, answer)`` at once.

    The distinct answers of an item are put to the judge one after the other, most frequent first,
    each against the classes so far; all items advance together, so that requests can be batched.
    An answer that the judge cannot place is a class of its own.
    """
    order = [_distinct(answers) for answers in items]
    heads: list[list[str]] = [[] for _ in items]
    classes: list[dict[str, int]] = [{} for _ in items]
    for step in range(max(map(len, order), default=0)):
        asked, places = [], []
        for i, texts in enumerate(order):
            if step < len(texts):
                if heads[i]:
                    asked.append((questions[i], tuple(heads[i]), texts[step]))
                    places.append(i)
                else:
                    _place(heads[i], classes[i], texts[step], None)
        for i, found in zip(places, match(asked) if asked else [], strict=True):
            _place(heads[i], classes[i], order[i][step], found)
    asked, owners = [], []
    for i, right in enumerate(labels):
        for label in right or ():
            # A label spelled as one of the answers needs no judge.
            if heads[i] and label not in classes[i] and label != REFUSAL:
                asked.append((questions[i], tuple(heads[i]), label))
                owners.append(i)
    nearest: list[list[tuple[str, int]]] = [
        [(label, classes[i][label]) for label in right or () if label in classes[i]]
        for i, right in enumerate(labels)
    ]
    for i, (_, _, label), found in zip(owners, asked, match(asked) if asked else [], strict=True):
        if found is not None:
            nearest[i].append((label, found))
    return [_named(answers, classes[i], nearest[i]) for i, answers in enumerate(items)]


def check_threshold(threshold: float) -> None:
    if isinstance(threshold, bool) or not 0.0 < float(threshold) <= 1.0:
        raise ValueError(f"threshold must lie in (0, 1], a cosine, got {threshold!r}")


class ClusterFilter(Filter):
    """Replace canonical answers by the names of their classes; put it after ``answer``.

    Args:
        kind: ``embedding`` or ``judge``.
        threshold: for ``embedding``: least cosine of answers of one class.
        model: for ``embedding``: the embedder; for ``judge``: the judge's name at its endpoint, or
            the arguments of a harness model (``pretrained=...``).
        judge: for ``judge``: address of an OpenAI-compatible endpoint, or a harness model (``hf``).
        target: the document field that holds the acceptable answer or answers. Without it an
            acceptable answer is found only where a class is named exactly as it.
        question: the document field that holds the question, for the judge.
    """

    def __init__(
        self,
        kind: str = "embedding",
        threshold: float = THRESHOLD,
        model: str | None = None,
        judge: str | None = None,
        target: str | None = None,
        question: str | None = None,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(
                f"filter cluster: kind must be one of {', '.join(KINDS)}, got {kind!r}"
            )
        if kind == "judge" and not judge:
            raise ValueError("filter cluster: kind judge needs `judge:`, an address or a model")
        check_threshold(threshold)
        self.kind, self.threshold, self.model = kind, threshold, model
        self.judge, self.target, self.question = judge, target, question

    @staticmethod
    def encoder(model: str | None) -> Encode:
        """The embedder; the plugin puts sentence-transformers here."""
        raise NotImplementedError

    @staticmethod
    def matcher(judge: str, model: str | None) -> Match:
        """The judge's comparison of answers; the plugin puts models here."""
        raise NotImplementedError

    def apply(self, resps: Any, docs: Sequence[Any]) -> list[list[Run]]:
        """Class names for a whole task; ``text`` answers where no ``answer`` filter went before."""
        cells = [texts_of(cell) for cell in resps]
        runs = [[self._answered(as_run(run)) for run in cell] for cell in cells]
        answers = [[run.answer or "" for run in cell] for cell in runs]
        kinds = [next((run.kind for run in cell if run.kind), "text") for cell in runs]
        labels = [self._labels(doc, kind) for doc, kind in zip(docs, kinds, strict=True)]
        if self.kind == "embedding":
            named = cluster_embeddings(answers, labels, self.encoder(self.model), self.threshold)
        else:
            assert self.judge is not None
            asked = [self._field(doc, self.question) for doc in docs]
            questions = [None if one is None else str(one) for one in asked]
            named = cluster_judged(answers, labels, questions, self.matcher(self.judge, self.model))
        return [
            [give_answer(run, name) for run, name in zip(cell, names, strict=True)]
            for cell, names in zip(runs, named, strict=True)
        ]

    @staticmethod
    def _answered(run: Run) -> Run:
        if run.answer is not None or run.missing:
            return run
        return give_answer(run, canonical(run, "text"), "text")

    def _labels(self, doc: Mapping[str, Any], kind: str) -> tuple[str, ...] | None:
        return acceptable(self._field(doc, self.target), kind) if self.target else None

    @staticmethod
    def _field(doc: Mapping[str, Any], name: str | None) -> Any:
        if name is not None and name not in doc:
            raise ValueError(
                f"filter cluster: the document has no field {name!r}; "
                f"its fields: {', '.join(map(str, doc))}"
            )
        return None if name is None else doc[name]


def _distinct(answers: Sequence[str]) -> list[str]:
    """Distinct answers to be compared, most frequent first, then by spelling."""
    counts = Counter(answer for answer in answers if answer and answer != REFUSAL)
    return sorted(counts, key=lambda answer: (-counts[answer], answer))


def _place(heads: list[str], classes: dict[str, int], text: str, found: int | None) -> None:
    if found is None:
        found = len(heads)
        heads.append(text)
    classes[text] = found


def _named(
    answers: Sequence[str], classes: Mapping[str, int], nearest: Sequence[tuple[str, int]]
) -> list[str]:
    names: dict[int, str] = {}
    for text, number in classes.items():  # most frequent first
        names.setdefault(number, text)
    named: set[int] = set()
    for label, number in nearest:
        if number not in named:
            names[number] = label
            named.add(number)
    return [names[classes[answer]] if answer in classes else answer for answer in answers]
