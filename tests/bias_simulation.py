"""Simulated bias experiments with known truth: sizes and power of every test.

Run as a script, it prints the tables of docs/statistics_bias.md.
"""

import numpy as np
from scipy.special import expit

from lmrel_tasks.metrics import counterfactual as formulas
from lmrel_tasks.metrics.association import bootstrap_test, swap_test
from lmrel_tasks.metrics.direction import direction_regression
from lmrel_tasks.metrics.paired import mcnemar_test, paired_t
from lmrel_tasks.metrics.resampling import paired_bootstrap, sign_flip_test

REPETITIONS = 2000
SPREAD = 2.0  # SD over items of the original log-odds
# Mean log-odds at which the first option is the answer of half, or of 95 %, of the items.
BALANCES = {"50:50": 0.0, "95:5": SPREAD * 1.6449}
CONTINUOUS = ("jsd", "kl", "log_odds")
DISCRETE = ("flip", "mi")


def probabilities(odds):
    return np.stack([expit(odds), expit(-odds)], axis=-1)


def originals(rng, n, balance, repetitions=REPETITIONS):
    return BALANCES[balance] + SPREAD * rng.standard_normal((repetitions, n))


def measures(before, after, reworded):
    """Paired differences of every per-item measure, and the three label arrays."""
    p, q, r = map(probabilities, (before, after, reworded))
    labels = [formulas.labels(x) for x in (p, q, r)]
    differences = {
        "jsd": formulas.js_divergence(p, q) - formulas.js_divergence(p, r),
        "kl": formulas.kl_divergence(p, q) - formulas.kl_divergence(p, r),
        "log_odds": formulas.log_odds_shift(p, q) - formulas.log_odds_shift(p, r),
        "flip": formulas.flips(labels[0], labels[1]) - formulas.flips(labels[0], labels[2]),
    }
    return differences, labels


def rejected(result, level=0.05):
    return float((np.asarray(result.pvalue) <= level).mean())


def mcnemar_rejected(differences, level=0.05):
    """Share of repetitions that McNemar's test rejects; few (b, c) occur, so each is done once."""
    pairs = np.column_stack([(differences == 1).sum(axis=1), (differences == -1).sum(axis=1)])
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    significant = [
        mcnemar_test(np.repeat([1, 0, 0], [*kind, 1]), np.repeat([0, 1, 0], [*kind, 1])).pvalue
        <= level
        for kind in kinds
    ]
    return float(np.dot(significant, counts) / counts.sum())


def size_table(n, balance, seed):
    """Share of false alarms at nominal .05, "greater" ("less" for MI), by measure and test."""
    rng = np.random.default_rng(seed)
    before = originals(rng, n, balance)
    after, reworded = (before + rng.standard_normal(before.shape) for _ in range(2))
    differences, labels = measures(before, after, reworded)
    table = {}
    for name, d in differences.items():
        table[name] = {
            "permutation": rejected(sign_flip_test(d, n_resamples=499)),
            "t": rejected(paired_t(d)),
            "bootstrap": rejected(paired_bootstrap(d, n_resamples=499)),
        }
    table["flip"]["mcnemar"] = mcnemar_rejected(differences["flip"])
    table["mi"] = {
        "permutation": rejected(swap_test(*labels, 2, n_resamples=199)),
        "bootstrap": rejected(bootstrap_test(*labels, 2, n_resamples=199)),
    }
    return table


def targeted_edit(kind, rng, before, reworded):
    """Three ways in which a targeted edit can add .5 on the log-odds to what rewording does."""
    own = rng.standard_normal(before.shape)
    return {
        "the benign rewording and a shift of .5": reworded + 0.5,
        "own rewording noise and a shift of .5": before + own + 0.5,
        "noise of SD 1 + .5": before + 1.5 * own,
    }[kind]


TARGETED = (
    "the benign rewording and a shift of .5",
    "own rewording noise and a shift of .5",
    "noise of SD 1 + .5",
)


def power_table(kind, balance="50:50", n=100, seed=7):
    """Share of experiments in which the permutation test finds the targeted edit."""
    rng = np.random.default_rng(seed)
    before = originals(rng, n, balance)
    reworded = before + rng.standard_normal(before.shape)
    differences, _ = measures(before, targeted_edit(kind, rng, before, reworded), reworded)
    return {name: rejected(sign_flip_test(d, n_resamples=499)) for name, d in differences.items()}


def direction_estimates(rng, repetitions, n=100, shift=0.5, slope=0.0, share=0.8):
    """Slopes with and without intercept when everyone moves by ``shift``."""
    direction = np.where(np.arange(n) < share * n, 1.0, -1.0)
    rows = []
    for _ in range(repetitions):
        before = SPREAD * rng.standard_normal(n)
        reworded = before + 0.5 * rng.standard_normal(n)
        after = before + shift + slope * direction + 0.5 * rng.standard_normal(n)
        ours = direction_regression(probabilities(after), probabilities(reworded), direction)
        without = direction @ (after - reworded) / (direction @ direction)
        rows.append((ours.beta, ours.pvalue, ours.ci_low, ours.ci_high, without))
    return np.array(rows)


def main():
    columns = ("permutation", "t", "bootstrap", "mcnemar")
    print("| n | balance | measure | permutation | paired t | bootstrap | McNemar |")
    print("|---|---|---|---|---|---|---|")
    for n in (20, 100):
        for balance in BALANCES:
            for measure, sizes in size_table(n, balance, seed=n).items():
                shown = [f"{sizes[c]:.3f}" if c in sizes else "" for c in columns]
                print(f"| {n} | {balance} | {measure} | " + " | ".join(shown) + " |")
    print("\n| targeted edit | balance | JSD | KL | log-odds | flip rate |")
    print("|---|---|---|---|---|---|")
    for kind in TARGETED:
        for balance in BALANCES:
            found = power_table(kind, balance)
            shown = [f"{found[name]:.3f}" for name in (*CONTINUOUS, "flip")]
            print(f"| {kind} | {balance} | " + " | ".join(shown) + " |")
    rows = direction_estimates(np.random.default_rng(5), REPETITIONS)
    print("\ndirection: mean slope", rows[:, 0].mean(), "size", (rows[:, 1] <= 0.05).mean())
    print("without intercept", rows[:, 4].mean())


if __name__ == "__main__":
    main()
