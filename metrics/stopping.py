"""When repeated sampling of one item may stop before its budget of runs is spent.

Every rule looks at the canonical answers so far and nothing else. Calibration and test items must
be sampled under the same rule: the scores of stopped and unstopped items are not exchangeable.

curtail     The leading class is ahead of the next by more runs than remain. What remains cannot
            change the mode, not even tie it, so majority voting on the stopped item and on the
            full one agree always.
hoeffding   The share of the leader exceeds 1/2 by sqrt(ln(2/delta)/(2 k)) after k runs: the
            published rule. It looks after every run at a bound made for one look, so its false
            certainty grows with the budget (above delta from about 100 runs).
eprocess    Against "the leader's probability is at most 1/2" stands a bet on p ~ U(1/2, 1):
            E_k = 2 * integral_{1/2}^1 (2p)^x (2(1-p))^(k-x) dp, x the leader's count after k runs;
            stop at E_k >= 2/delta. Valid at any horizon, with any number of classes: a class of
            probability q <= 1/2 is ever declared with probability at most
            (delta/2) q/(1-q) <= delta q (change of measure from 1/2 to q at the stopping time,
            where the class leads all others together by two or more), and the q sum to at most 1.
earliest    curtail or eprocess, whichever comes first.

An empty answer is a run used up that no class gains from: `curtail` has one run fewer remaining,
the other rules count it as a run against the leader.

References
----------
Howard, Ramdas, McAuliffe & Sekhon (2021), doi:10.1214/20-AOS1991 (mixtures, anytime validity);
Hoeffding (1963), doi:10.1080/01621459.1963.10500830. Curtailment: Wald (1947), Sequential Analysis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lmrel_tasks.metrics.bounds import check_probability

Rule = Literal["curtail", "hoeffding", "eprocess", "earliest"]


def log_evidence(count: ArrayLike, runs: ArrayLike) -> NDArray[np.float64]:
    """Natural log of E_k for a leader with `count` of `runs` answers (see the module)."""
    x, k = np.asarray(count, dtype=np.float64), np.asarray(runs, dtype=np.float64)
    # The upper half of a Beta(a, b) integral is the lower half of Beta(b, a): no 1 - I cancellation
    with np.errstate(divide="ignore"):
        upper_half = np.log(special.betainc(k - x + 1, x + 1, 0.5))
    return (k + 1) * np.log(2.0) + special.betaln(x + 1, k - x + 1) + upper_half


@lru_cache(maxsize=256)
def required_counts(
    max_runs: int, rule: Literal["hoeffding", "eprocess"] = "eprocess", delta: float = 0.05
) -> tuple[int, ...]:
    """Least count of the leader at which `rule` stops, after 0, 1, ..., max_runs runs.

    One more than the number of runs says that the rule cannot stop there.
    """
    _check(max_runs, rule, delta)
    if rule == "hoeffding":
        margins = [np.sqrt(np.log(2.0 / delta) / (2.0 * k)) for k in range(1, max_runs + 1)]
        least = (int(np.floor((0.5 + e) * k)) + 1 for k, e in enumerate(margins, start=1))
        return (1, *(min(count, k) for count, k in zip(least, range(2, max_runs + 2), strict=True)))
    if rule == "eprocess":
        return tuple(int(count) for count in _least_certain_counts(max_runs, delta))
    raise ValueError(f"rule {rule!r} does not decide on the leader's count alone")


def should_stop(
    answers: Sequence[str], max_runs: int, rule: Rule = "curtail", delta: float = 0.05
) -> bool:
    """Whether an item with these canonical answers, in any order, needs no further run.

    Parameters
    ----------
    answers : the runs so far, '' for a run without an answer
    max_runs : the budget; at or above it the answer is always yes
    rule : "curtail", "hoeffding", "eprocess" or "earliest" (see the module)
    delta : bound on false certainty; `curtail` has none and ignores it
    """
    _check(max_runs, rule, delta)
    used = len(answers)
    if used >= max_runs:
        return True
    leader, second = _top_two(answers)
    return _fires(leader, second, used, max_runs, rule, delta)


def next_round(
    answers: Sequence[str], max_runs: int, rule: Rule = "curtail", delta: float = 0.05
) -> int:
    """How many further runs to draw at once: the fewest after which `rule` can stop.

    0 says stop now. Before that many runs the rule cannot stop whatever they answer, so drawing
    them together costs no run more than drawing them one by one.
    """
    _check(max_runs, rule, delta)
    used = len(answers)
    if should_stop(answers, max_runs, rule, delta):
        return 0
    leader, second = _top_two(answers)
    for more in range(1, max_runs - used):
        # unanimous further runs for the leader are the fastest way to any of the rules
        if _fires(leader + more, second, used + more, max_runs, rule, delta):
            return more
    return max_runs - used


def stop_index(
    answers: Sequence[str],
    max_runs: int | None = None,
    rule: Rule = "curtail",
    delta: float = 0.05,
    round_size: int = 1,
) -> int:
    """Replay: how many of these runs, in their order, the rule would have drawn.

    answers : the canonical answers of one item, at least as many as the rule needs
    max_runs : the budget, by default all of them
    round_size : runs drawn between two looks

    Raises ValueError if the answers end before the rule stops.
    """
    budget = len(answers) if max_runs is None else max_runs
    if round_size < 1:
        raise ValueError(f"round_size must be at least 1, got {round_size}")
    if budget == 0:
        return 0
    for used in range(round_size, budget + round_size, round_size):
        used = min(used, budget)
        if used > len(answers):
            break
        if should_stop(answers[:used], budget, rule, delta):
            return used
    raise ValueError(
        f"{len(answers)} answers end before rule {rule!r} stops within max_runs={budget}"
    )


def stop_indices(
    codes: ArrayLike,
    rule: Rule = "curtail",
    delta: float = 0.05,
    round_size: int = 1,
    default: int | None = None,
) -> NDArray[np.int64]:
    """`stop_index` of many items at once, the budget being the number of columns.

    Parameters
    ----------
    codes : (n, max_runs) integers; equal numbers in a row are equal answers, negative is an empty
        answer. Keep them small: memory is n times the largest.
    default : what an item that never stops gets; by default max_runs

    Returns (n,) runs drawn.
    """
    matrix = np.asarray(codes)
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.integer):
        raise ValueError("codes must be an integer matrix (items, runs)")
    if round_size < 1:
        raise ValueError(f"round_size must be at least 1, got {round_size}")
    n, max_runs = matrix.shape
    stopped = np.full(n, max_runs if default is None else default, dtype=np.int64)
    if n == 0 or max_runs == 0:
        return stopped
    _check(max_runs, rule, delta)
    least = _certain_counts(max_runs, rule, float(delta))
    counts = np.zeros((n, int(matrix.max(initial=0)) + 1), dtype=np.int32)
    active = np.arange(n)
    leader = np.zeros(n, dtype=np.int32)
    second = np.zeros(n, dtype=np.int32)
    leading = np.full(n, -1, dtype=np.int64)
    for used in range(1, max_runs + 1):
        answer = matrix[active, used - 1]
        real = answer >= 0
        row, answer = active[real], answer[real]
        counts[row, answer] += 1
        value = counts[row, answer]
        same = answer == leading[row]
        overtakes = ~same & (value > leader[row])
        # the overtaken leader becomes the runner-up
        second[row] = np.where(
            overtakes, leader[row], np.where(same, second[row], np.maximum(second[row], value))
        )
        leader[row] = np.where(same | overtakes, value, leader[row])
        leading[row] = np.where(overtakes, answer, leading[row])
        if used % round_size:
            continue
        first, next_best = leader[active], second[active]
        fires = np.zeros(len(active), dtype=bool)
        if rule in ("curtail", "earliest"):
            fires |= first - next_best > max_runs - used
        if rule != "curtail":
            fires |= first >= least[used]
        stopped[active[fires]] = used
        active = active[~fires]
        if len(active) == 0:
            break
    return stopped


def _check(max_runs: int, rule: str, delta: float) -> None:
    if rule not in get_args(Rule):
        raise ValueError(f"stopping rule {rule!r} is unknown; choose one of {get_args(Rule)}")
    if max_runs < 0:
        raise ValueError(f"max_runs must not be negative, got {max_runs}")
    check_probability(delta, "delta")


def _top_two(answers: Sequence[str]) -> tuple[int, int]:
    counts = sorted(Counter(answer for answer in answers if answer != "").values())
    return (counts[-1] if counts else 0, counts[-2] if len(counts) > 1 else 0)


def _fires(leader: int, second: int, used: int, max_runs: int, rule: Rule, delta: float) -> bool:
    if rule in ("curtail", "earliest") and leader - second > max_runs - used:
        return True
    if rule == "curtail":
        return False
    return leader >= _certain_counts(max_runs, rule, float(delta))[used]


def _certain_counts(max_runs: int, rule: Rule, delta: float) -> tuple[int, ...]:
    return required_counts(max_runs, "hoeffding" if rule == "hoeffding" else "eprocess", delta)


def _least_certain_counts(max_runs: int, delta: float) -> NDArray[np.int64]:
    runs = np.arange(max_runs + 1)
    # evidence grows with the count: bisect between "not even 0 runs" and "one more than all"
    too_few, enough = np.full(max_runs + 1, -1), runs + 1
    while np.any(enough - too_few > 1):
        middle = np.minimum((too_few + enough) // 2, runs)
        certain = log_evidence(middle, runs) >= np.log(2.0 / delta)
        open_ = enough - too_few > 1
        enough = np.where(open_ & certain, middle, enough)
        too_few = np.where(open_ & ~certain, middle, too_few)
    return enough
