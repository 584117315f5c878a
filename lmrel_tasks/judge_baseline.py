"""What a judge would have decided, beside what gold labels show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmrel_tasks.certification import ItemRow
from lmrel_tasks.judge import Judge
from lmrel_tasks.metrics.bounds import Proportion, clopper_pearson, proportion
from lmrel_tasks.repeats import Repeats


@dataclass(frozen=True)
class JudgeBaseline:
    """A judge without gold, on the most frequent answer of each labelled item.

    Attributes:
        judge: its name.
        accepted: share of items whose answer the judge calls right; unclear verdicts do not count
            as right.
        lower: exact one-sided lower bound of that share, what a gate on the judge would test.
        accuracy: share of clear verdicts that agree with gold.
        kappa: Cohen's kappa of verdicts and gold; nan where one of the two never varies.
        false_accepts, false_rejects: answers called right that gold calls wrong, and the reverse.
        unclear: verdicts that could not be read or had.
        not_asked: items without any answer; counted as rejected, and as agreeing with gold.
    """

    judge: str
    accepted: Proportion
    lower: float
    accuracy: Proportion
    kappa: float
    false_accepts: int
    false_rejects: int
    unclear: int
    not_asked: int


def judge_baseline(
    judge: Judge, items: Sequence[Repeats], rows: Sequence[ItemRow], confidence: float = 0.95
) -> JudgeBaseline:
    """Ask the judge about the most frequent answer of every labelled item.

    Args:
        judge: the judge; it sees question and response, never gold.
        items: with questions and texts kept.
        rows: the table of their certificate, in the same order.

    Raises:
        ValueError: for an item whose question is not recorded.
    """
    pairs, right, not_asked = [], [], 0
    for item, row in zip(items, rows, strict=True):
        if row.labels is None:
            continue
        if not row.answer:
            not_asked += 1
            continue
        if not item.question:
            raise ValueError(f"{item.where}: a judge needs the question; give a field `question`")
        pairs.append((item.question, item.texts.get(row.answer, row.answer)))
        right.append(row.answer in row.labels)
    found = judge.verdicts(pairs)
    clear = [(verdict, gold) for verdict, gold in zip(found, right, strict=True)
             if verdict is not None]  # fmt: skip
    clear += [(False, False)] * not_asked
    accepted = sum(verdict for verdict, _ in clear)
    n = len(found) + not_asked
    low, _ = clopper_pearson(accepted, n, confidence, alternative="greater")
    return JudgeBaseline(
        judge=judge.name,
        accepted=proportion(accepted, n, confidence),
        lower=float(low),
        accuracy=proportion(
            sum(verdict == gold for verdict, gold in clear), len(clear), confidence
        ),
        kappa=cohen_kappa(clear),
        false_accepts=sum(verdict and not gold for verdict, gold in clear),
        false_rejects=sum(gold and not verdict for verdict, gold in clear),
        unclear=len(found) + not_asked - len(clear),
        not_asked=not_asked,
    )


def cohen_kappa(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Cohen's kappa of two binary ratings; nan where chance agreement is certain.

    Cohen (1960), doi:10.1177/001316446002000104.
    """
    from statsmodels.stats.inter_rater import cohens_kappa

    table = np.zeros((2, 2))
    for first, second in pairs:
        table[int(first), int(second)] += 1
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    total = table.sum()
    if total == 0 or float(rows @ columns) == total**2:
        return float("nan")
    return float(cohens_kappa(table, return_results=False))
