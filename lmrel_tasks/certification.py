"""From items with repeated answers to a reliability level that a gate can test."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lmrel_tasks.filters.clusters import (
    THRESHOLD,
    Encode,
    Match,
    cluster_embeddings,
    cluster_judged,
)
from lmrel_tasks.metrics import agreement, answer_classes, conformal
from lmrel_tasks.metrics.answer_classes import Ties
from lmrel_tasks.metrics.bounds import ItemsNeeded, check_probability, items_needed
from lmrel_tasks.metrics.conformal import Coverage, ReliabilityLevel, SetSize
from lmrel_tasks.repeats import Reading, Repeats, read_repeats

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ItemRow:
    """One item in the table of a certificate.

    Attributes:
        id: its identity.
        runs, answered, classes: numbers of responses, of those with an answer, of distinct answers.
        answer: the most frequent answer, ties drawn by the seed; ``""`` without any.
        share: its share of the responses.
        score: rank of the best acceptable answer; inf if never sampled, nan without a label.
        labels: acceptable answers; None if unknown.
        prediction_set: the answers of the item's set at alpha.
        covered: whether that set holds an acceptable answer; None without a label.
    """

    id: str
    runs: int
    answered: int
    classes: int
    answer: str
    share: float
    score: float
    labels: tuple[str, ...] | None
    prediction_set: tuple[str, ...]
    covered: bool | None


@dataclass(frozen=True)
class Certificate:
    """What the labelled items show.

    Attributes:
        items, unlabelled: items that count, and items left out for want of a label.
        runs_min, runs_max: fewest and most responses of an item.
        level: conformal level of the most frequent answer, with its lower bound.
        sets: M*(alpha), or why there is none.
        set_size: mean number of answers in the labelled items' sets at M*, of all their answers
            where that is infeasible.
        coverage: leave-one-out coverage, with the capability gap.
        accuracy: mean share of responses that are acceptable.
        mode_accuracy: expected accuracy of the most frequent answer, over ties.
        answer_agreement: mean share of pairs of responses with one answer; nan at one response.
        tar_answer: share of items whose responses all have one answer (TARa@N); nan likewise.
        needed: items that would show the threshold at this mode accuracy; None if none would.
        groups: ``group -> (level, sets)``, each calibrated on its own items.
        rows: the per-item table, unlabelled items included.
        notes: what a reader must know before trusting the numbers.
    """

    items: int
    unlabelled: int
    runs_min: int
    runs_max: int
    level: ReliabilityLevel
    sets: SetSize
    set_size: float
    coverage: Coverage
    accuracy: float
    mode_accuracy: float
    answer_agreement: float
    tar_answer: float
    needed: ItemsNeeded | None
    groups: Mapping[str, tuple[ReliabilityLevel, SetSize]] = field(default_factory=dict)
    rows: Sequence[ItemRow] = ()
    notes: tuple[str, ...] = ()

    def passes(self, threshold: float, gate: Literal["lower", "level"] = "lower") -> bool:
        """Whether the bound (or the raw level) reaches the threshold."""
        return getattr(self.level, gate) >= threshold

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, as JSON values; what is undefined or infinite is None."""
        plain = asdict(replace(self, rows=(), groups={}))
        del plain["rows"]
        plain["groups"] = {
            name: {"level": asdict(level), "sets": asdict(sets)}
            for name, (level, sets) in self.groups.items()
        }
        return finite(plain)


def finite(value: Any) -> Any:
    """JSON values: NaN and infinity, which JSON does not know, become None."""
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def certify(
    items: Sequence[Repeats],
    *,
    alpha: float = 0.1,
    confidence: float = 0.95,
    threshold: float = 0.9,
    ties: Ties = "random",
    seed: int = 0,
) -> Certificate:
    """The certificate of a calibration set.

    Args:
        items: the items; those without a label are listed and do not count.
        alpha: miscoverage of the prediction sets.
        confidence: of the lower bound.
        threshold: what the reliability should reach, for the number of items needed.
        ties: order of answers of equal frequency, see `metrics.answer_classes`.
        seed: of that order.

    Raises:
        ValueError: for a probability out of range, or if no item has a label.
    """
    check_probability(alpha, "alpha")
    check_probability(confidence, "confidence")
    check_probability(threshold, "min-reliability")
    labelled = [item for item in items if item.labels is not None]
    if not labelled:
        raise ValueError(
            f"none of the {len(items)} items has a label, so nothing can be judged; give gold "
            "answers, or people's labels with --labels (see `lmrel label export`)"
        )
    answers = [item.answers for item in labelled]
    labels = [item.labels or () for item in labelled]
    table = answer_classes.count_classes(answers, [item.key for item in labelled])
    scores = answer_classes.scores(table, labels, ties, seed)
    level = conformal.reliability_level(scores, confidence=confidence)
    modes = answer_classes.mode_accuracy(table, labels)
    groups: dict[str, tuple[ReliabilityLevel, SetSize]] = {}
    if any(item.group is not None for item in labelled):
        names = [str(item.group) for item in labelled]
        found = conformal.by_group(
            names,
            lambda part: (
                conformal.reliability_level(part, confidence=confidence),
                conformal.m_star(part, alpha),
            ),
            scores,
        )
        groups = {str(name): value for name, value in found.items()}
    pairs = [agreement.answer_agreement(one) for one in answers]
    sets = conformal.m_star(scores, alpha)
    return Certificate(
        items=len(labelled),
        unlabelled=len(items) - len(labelled),
        runs_min=int(table.runs.min()),
        runs_max=int(table.runs.max()),
        level=level,
        sets=sets,
        set_size=float(np.minimum(table.classes, sets.m_star).mean()),
        coverage=conformal.coverage(scores, alpha, table.classes),
        accuracy=_mean([_share(a, right) for a, right in zip(answers, labels, strict=True) if a]),
        mode_accuracy=float(modes.mean()),
        answer_agreement=_mean([one for one in pairs if not math.isnan(one)]),
        tar_answer=agreement.tar(answers),
        needed=_needed(threshold, confidence, float(modes.mean())),
        groups=groups,
        rows=_rows(
            items,
            dict(zip([one.key for one in labelled], scores.tolist(), strict=True)),
            sets,
            seed,
        ),
        notes=_notes(items, labelled, table.runs),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _share(answers: Sequence[str], right: Sequence[str]) -> float:
    return sum(answer in right for answer in answers) / len(answers)


def _needed(threshold: float, confidence: float, accuracy: float) -> ItemsNeeded | None:
    try:
        return items_needed(threshold, confidence, accuracy)
    except ValueError:
        return None  # the model does not reach the threshold, whatever the number of items


def _rows(
    items: Sequence[Repeats], scores: Mapping[str, float], sets: SetSize, seed: int
) -> list[ItemRow]:
    table = answer_classes.count_classes(
        [item.answers for item in items], [item.key for item in items]
    )
    ranked = answer_classes.prediction_sets(table, math.inf, seed)
    rows = []
    for item, order in zip(items, ranked, strict=True):
        names = [str(name) for name in order]
        best = names[0] if names else ""
        size = len(names) if math.isinf(sets.m_star) else int(sets.m_star)
        kept = tuple(names[:size])
        right = item.labels
        rows.append(
            ItemRow(
                id=item.key,
                runs=len(item.answers),
                answered=sum(map(bool, item.answers)),
                classes=len(names),
                answer=best,
                share=item.answers.count(best) / len(item.answers) if best else 0.0,
                score=scores.get(item.key, math.nan),
                labels=right,
                prediction_set=kept,
                covered=None if right is None else any(label in kept for label in right),
            )
        )
    return rows


def _notes(items: Sequence[Repeats], labelled: Sequence[Repeats], runs: Any) -> tuple[str, ...]:
    notes = []
    if len(labelled) < len(items):
        notes.append(
            f"{len(items) - len(labelled)} of {len(items)} items have no label and do not count; "
            "the result holds for items like the labelled ones"
        )
    if runs.min() != runs.max():
        notes.append(
            f"items have {runs.min()} to {runs.max()} responses; the guarantee holds if one rule "
            "decided their number for every item (early stopping), not if responses were lost"
        )
    if runs.max() == 1:
        notes.append("one response per item: the most frequent answer is the only one")
    if empty := int((runs == 0).sum()):
        notes.append(f"{empty} items have no responses and count as never solved")
    return tuple(notes)


def load(
    path: Path,
    reading: Reading,
    labels: Mapping[str, tuple[str, ...]] | None = None,
    *,
    encode: Callable[[], Encode] | None = None,
    match: Match | None = None,
    cluster_threshold: float = THRESHOLD,
) -> list[Repeats]:
    """The items of a file, with people's labels in place of gold and open answers in classes.

    Args:
        path, reading: see `repeats.read_repeats`.
        labels: item id -> acceptable answers; other items count as unlabelled.
        encode: gives the embedder, for kind ``embedding``.
        match: the judge's, for kind ``judge``.
        cluster_threshold: cosine for kind ``embedding``.

    Raises:
        ValueError: as `read_repeats`, and for a label of an item that is not there.
    """
    items = list(read_repeats(path, reading))
    if labels is not None:
        strange = [key for key in labels if key not in {item.key for item in items}]
        if len(strange) == len(labels):
            raise ValueError(f"{path}: none of the labels is for one of its items")
        if strange:
            log.warning("%s: %d labels are for items that it lacks", path, len(strange))
        items = [replace(item, labels=labels.get(item.key)) for item in items]
    if reading.kind not in ("embedding", "judge"):
        return items
    answers = [item.answers for item in items]
    right = [item.labels for item in items]
    if reading.kind == "embedding":
        if encode is None:
            raise ValueError("kind embedding needs an embedder")
        named = cluster_embeddings(answers, right, encode(), cluster_threshold)
    else:
        if match is None:
            raise ValueError("kind judge needs a judge: give --judge")
        named = cluster_judged(answers, right, [item.question for item in items], match)
    return [
        replace(
            item,
            answers=tuple(names),
            texts={
                name: item.texts[answer]
                for name, answer in reversed(list(zip(names, item.answers, strict=True)))
                if answer in item.texts
            },
        )
        for item, names in zip(items, named, strict=True)
    ]
