"""Comparing results: pairing, mismatches, tests, ranks, and the command."""

from __future__ import annotations

import csv
import gc
import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from result_folders import digest, write_results
from scipy import optimize, stats

from lmrel_tasks.cli import main
from lmrel_tasks.contestants import Contestant, find_contestants
from lmrel_tasks.differences import adjusted, task_differences
from lmrel_tasks.metrics.paired_difference import paired_difference
from lmrel_tasks.metrics.paired_proportions import tango_interval
from lmrel_tasks.mismatches import find_mismatches
from lmrel_tasks.paired_results import PairedTask, Scores, pair_tasks
from lmrel_tasks.ranking import ranks
from lmrel_tasks.results import Evaluation

RNG = np.random.default_rng(7)
NOISE = RNG.normal(size=(2, 60))
COIN = (RNG.random((2, 80)) < [[0.5], [0.7]]).astype(float)


def in_memory(values: dict[str, np.ndarray], task: str = "t") -> PairedTask:
    """A paired task from (contestants, items) values, without files."""
    count, n = next(iter(values.values())).shape
    who, scores = [], []
    for c in range(count):
        row = {f"{metric},none": float(v[c].mean()) for metric, v in values.items()}
        content = {"results": {task: row}, "configs": {task: {}}}
        evaluation = Evaluation(Path(f"results_{c}.json"), "1", content)
        who.append(Contestant(f"m{c}", f"m{c}", ".", (evaluation,)))
        keys = [str(i) for i in range(n)]
        zeros = np.zeros(n, np.uint64)
        scores.append(
            Scores(
                {key: i for i, key in enumerate(keys)}, keys, zeros, zeros,
                {metric: v[c] for metric, v in values.items()}, frozenset(), n,
            )
        )  # fmt: skip
    return PairedTask(task, "none", tuple(who), tuple(scores), tuple(keys))


# The test of one metric ------------------------------------------------------------------------


def test_means_are_tested_by_paired_t_as_scipy_does() -> None:
    test, error = paired_difference(NOISE[0], NOISE[1])
    ours = stats.ttest_rel(NOISE[0], NOISE[1])
    interval = ours.confidence_interval(0.95)
    assert test.method == "paired t"
    assert test.pvalue == pytest.approx(ours.pvalue)
    assert (test.ci_low, test.ci_high) == pytest.approx((interval.low, interval.high))
    assert error == pytest.approx((NOISE[0] - NOISE[1]).std(ddof=1) / 60**0.5)


def test_zero_and_one_are_tested_by_exact_mcnemar() -> None:
    test, error = paired_difference(COIN[0], COIN[1])
    only = (
        int(((COIN[0] == 1) & (COIN[1] == 0)).sum()),
        int(((COIN[0] == 0) & (COIN[1] == 1)).sum()),
    )
    assert test.method == "exact McNemar"
    assert test.pvalue == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    assert test.estimate == pytest.approx((only[0] - only[1]) / 80)
    assert error == pytest.approx((COIN[0] - COIN[1]).std(ddof=1) / 80**0.5)
    # The limits are the differences whose score test, with the likeliest variance, gives 0.05.
    for limit, side in ((test.ci_low, 1), (test.ci_high, -1)):
        q = likeliest_second_only(limit, *only, 80)
        z = (only[0] - only[1] - 80 * limit) / (80 * (2 * q + limit * (1 - limit))) ** 0.5
        assert z == pytest.approx(side * 1.959964, abs=1e-4)


def likeliest_second_only(d: float, first: int, second: int, n: int) -> float:
    """Share of items that only the second has, by maximum likelihood under a difference."""

    def loss(q: float) -> float:
        both = n - first - second
        return -(first * np.log(q + d) + second * np.log(q) + both * np.log(1 - 2 * q - d))

    ends = (max(0.0, -d) + 1e-12, (1 - d) / 2 - 1e-12)
    return float(optimize.minimize_scalar(loss, bounds=ends, method="bounded").x)


def test_tango_intervals_are_those_published() -> None:
    # Fagerland, Lydersen and Laake (2014), airway hyper-responsiveness of 21 children.
    assert tango_interval(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)
    # Without a discordant item the limits are z^2/(n + z^2).
    assert tango_interval(0, 0, 50) == pytest.approx(
        (-3.8415 / 53.8415, 3.8415 / 53.8415), abs=1e-5
    )
    low, high = tango_interval(0, 2, 2)
    assert low == -1 and 0 < high < 1
    with pytest.raises(ValueError, match="do not fit into 3 items"):
        tango_interval(2, 2, 3)


@pytest.mark.parametrize("p", [(0.3, 0.1), (0.5, 0.4), (0.05, 0.02), (0.0, 0.9)])
def test_tango_intervals_cover(p: tuple[float, float]) -> None:
    n, covered = 30, 0.0
    for first in range(n + 1):
        for second in range(n + 1 - first):
            low, high = tango_interval(first, second, n)
            if low - 1e-9 <= p[0] - p[1] <= high + 1e-9:
                cells = (first, second, n - first - second)
                covered += stats.multinomial.pmf(cells, n, (*p, 1 - sum(p)))
    assert covered > 0.935


def test_no_interval_leaves_what_is_possible_or_has_no_width() -> None:
    found = {
        one.metric: one
        for one in task_differences(
            in_memory(
                {
                    "answer_agreement": np.array([[0.0, 1.0], [0.5, 0.5]]),
                    "tar_answer": np.array([[0.0, 0.0], [1.0, 1.0]]),
                    "semantic_repeatability": np.array([[0.0, 1.0], [1.0, 1.0]]),
                    "internal_repeatability": np.array([[0.5, 0.5], [0.7, 0.7]]),
                    "samples_used": np.array([[3.0, 3.0], [4.0, 4.0]]),
                    "semantic_entropy": np.array([[0.0, 1.0], [0.5, 0.5]]),
                }
            )
        )
    }
    wide = found["answer_agreement"]
    assert (wide.ci_low, wide.ci_high) == (-1, 1)
    assert found["semantic_entropy"].ci_low < -1
    share = found["tar_answer"]
    assert share.method == "exact McNemar" and share.pvalue == 0.5
    assert share.ci_low == -1 and share.ci_high == pytest.approx(tango_interval(0, 2, 2)[1])
    assert found["semantic_repeatability"].method == "sign-flip permutation"
    alike = found["internal_repeatability"]
    # With two items that lose 0.2, no more than this share of all items may do otherwise.
    share = stats.binomtest(0, 2).proportion_ci(0.95).high
    assert (alike.ci_low, alike.ci_high) == pytest.approx(
        (-0.2 * (1 - share) - share, -0.2 * (1 - share) + share)
    )
    assert np.isnan(found["samples_used"].ci_low)


def test_correctness_is_a_share_of_items_only_with_a_single_run() -> None:
    values = {"acc": np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])}
    for repeats, method in ((1, "exact McNemar"), (4, "sign-flip permutation")):
        paired = in_memory(values)
        for who in paired.contestants:
            (evaluation,) = who.evaluations
            evaluation.content["configs"]["t"] |= {
                "repeats": repeats, "metadata": {"lmrel": {"seed": 1}},
            }  # fmt: skip
        assert [one.method for one in task_differences(paired)] == [method]


def test_clusters_without_spread_prove_nothing() -> None:
    test, _ = paired_difference([0.0] * 4, [1.0] * 4, ["a", "a", "b", "b"])
    assert test.pvalue == 0.5 and np.isnan(test.ci_low)


def test_numbers_without_a_standard_error_above_0_are_not_separable(tmp_path: Path) -> None:
    for name, f1 in (("a", 1.0), ("b", 0.0)):
        write_results(
            tmp_path / name, name, {"f1": [0.0, 1.0, 1.0, 0.0]},
            reported={"f1,none": f1, "f1_stderr,none": 0.0},
        )  # fmt: skip
    (paired,) = pair_tasks(find_contestants([tmp_path / "a", tmp_path / "b"]))
    (one,) = adjusted(task_differences(paired))
    assert np.isnan(one.pvalue) and one.verdict() == "not separable"


def test_few_differing_items_are_tested_by_permutation() -> None:
    second = NOISE[0].copy()
    second[:6] += [0.5, 0.7, 0.2, 0.9, 0.3, 0.4]
    test, _ = paired_difference(NOISE[0], second)
    assert test.method == "sign-flip permutation"
    # All six have one sign: 2 of the 2**6 sign patterns are as extreme.
    assert test.pvalue == pytest.approx(2 / 64)
    assert test.n == 60
    same, _ = paired_difference(NOISE[0], NOISE[0])
    assert same.pvalue == 1 and same.estimate == 0


def test_clusters_use_the_robust_error_of_a_regression_on_a_constant() -> None:
    clusters = np.repeat(np.arange(20), 3)
    shared = NOISE[0] + np.repeat(RNG.normal(size=20), 3)
    test, error = paired_difference(shared, NOISE[1], clusters.tolist())
    fit = sm.OLS(shared - NOISE[1], np.ones(60)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
    assert error == pytest.approx(fit.bse[0] * (20 / 19) ** 0.5)
    assert test.method == "clustered t"
    assert test.pvalue == pytest.approx(2 * stats.t.sf(abs(test.estimate) / error, 19))


def test_levels_are_tested_by_paired_bootstrap() -> None:
    first, second = (RNG.random((2, 400)) < [[0.9], [0.75]]).astype(float)
    test, _ = paired_difference(first, second, kind="level")
    d = first - second
    assert test.method == "paired bootstrap"
    # the level is n/(n + 1) times the share of right modes
    assert test.estimate == pytest.approx(d.sum() / 401)
    reference = stats.bootstrap(
        (d * 400 / 401,), np.mean, method="percentile", n_resamples=9999, random_state=1
    ).confidence_interval
    assert (test.ci_low, test.ci_high) == pytest.approx(reference, abs=0.005)
    few, _ = paired_difference(first[:40], second[:40], kind="level")
    assert few.method == "exact McNemar"


@pytest.mark.parametrize("first, second", [([1.0], [0.0]), ([1.0, 2.0], [1.0]), ([[1.0]], [[1.0]])])
def test_shapes_that_do_not_fit_are_refused(first: list, second: list) -> None:
    with pytest.raises(ValueError, match="one value per item"):
        paired_difference(first, second)


# The family ------------------------------------------------------------------------------------


def repeated_runs(rng: np.random.Generator, chance: np.ndarray, runs: int) -> dict[str, np.ndarray]:
    """Metrics of simulated repeated answers, for every contestant; chance is (contestants, n)."""
    right = rng.random((*chance.shape, runs)) < chance[..., None]
    k = right.sum(-1)
    return {
        "acc": right.mean(-1),
        "exact_match": right[..., 0].astype(float),
        "answer_agreement": (k * (k - 1) + (runs - k) * (runs - k - 1)) / (runs * (runs - 1)),
        "tar_answer": ((k == 0) | (k == runs)).astype(float),
        "reliability_level": (2 * k > runs).astype(float),
        "certainty": chance + rng.normal(0, 0.05, chance.shape),
    }


def test_one_model_with_two_seeds_is_not_separable_in_93_percent_of_repetitions() -> None:
    rng = np.random.default_rng(3)
    quiet = 0
    gc.freeze()  # statsmodels collects garbage at every adjustment
    for _ in range(200):
        chance = rng.beta(1.2, 0.6, 150)
        paired = in_memory(repeated_runs(rng, np.stack([chance, chance]), 5))
        table = adjusted(task_differences(paired, n_resamples=1999))
        assert len(table) == 6
        quiet += all(one.winner() is None for one in table)
    gc.unfreeze()
    assert quiet >= 0.93 * 200


def test_a_large_difference_is_found_and_named_by_its_direction() -> None:
    rng = np.random.default_rng(5)
    chance = rng.beta(2, 2, 300)
    values = repeated_runs(rng, np.stack([chance, np.clip(chance + 0.2, 0, 1)]), 5)
    values["missing_rate"] = values["acc"]
    table = {one.metric: one for one in adjusted(task_differences(in_memory(values)))}
    assert table["acc"].winner() == "m1" and table["acc"].verdict() == "m1 better"
    # ours, and lower is better
    assert table["missing_rate"].winner() == "m0"
    # not ours, no direction known
    assert table["exact_match"].verdict() == "m1 higher"


def test_holm_spans_the_whole_table_and_detectable_uses_its_strictest_step() -> None:
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.power import TTestPower

    table = adjusted(task_differences(in_memory({"a": NOISE, "b": NOISE + 0.1 * NOISE**2})))
    reference = multipletests([one.pvalue for one in table], method="holm")[1]
    assert [one.pvalue_adjusted for one in table] == pytest.approx(list(reference))
    one = table[0]
    power = TTestPower().power(one.detectable / (one.stderr * 60**0.5), 60, 0.025)
    assert power == pytest.approx(0.8, abs=1e-4)


def test_ranks_tie_what_is_not_separable() -> None:
    rng = np.random.default_rng(1)
    base = rng.random(200)
    noise = rng.normal(0, 0.05, (3, 200))
    table = adjusted(task_differences(in_memory({"x": base + noise + [[0.0], [0.001], [0.2]]})))
    found = {one.name: one for one in ranks(table)}
    assert [found[name].rank for name in ("m0", "m1", "m2")] == [2, 2, 1]
    assert found["m0"].tied == ("m1",) and found["m2"].tied == ()


def test_numbers_that_are_no_means_are_compared_by_their_standard_errors(tmp_path: Path) -> None:
    for name, f1 in (("a", 0.9), ("b", 0.5)):
        write_results(
            tmp_path / name, name, {"f1": [0.0, 1.0, 1.0, 0.0]},
            reported={"f1,none": f1, "f1_stderr,none": 0.1},
        )  # fmt: skip
    (paired,) = pair_tasks(find_contestants([tmp_path / "a", tmp_path / "b"]))
    (one,) = task_differences(paired)
    assert one.method == "unpaired z"
    assert one.difference == pytest.approx(0.4)
    assert one.pvalue == pytest.approx(2 * stats.norm.sf(0.4 / 0.02**0.5))


# Reading and pairing ---------------------------------------------------------------------------


def test_items_are_paired_by_document_whatever_their_order(tmp_path: Path) -> None:
    docs = [{"q": i} for i in range(10)]
    values = [float(i) for i in range(10)]
    write_results(tmp_path / "a", "m", {"acc": values}, docs=docs)
    write_results(tmp_path / "b", "m", {"acc": values[::-1]}, docs=docs[::-1])
    (paired,) = pair_tasks(find_contestants([tmp_path / "a", tmp_path / "b"]))
    assert np.array_equal(*paired.values("acc"))
    assert [one.name for one in paired.contestants] == ["a", "b"]


def test_a_document_that_occurs_twice_counts_as_one_cluster(tmp_path: Path) -> None:
    docs = [{"q": i // 2} for i in range(40)]
    for name in "ab":
        write_results(tmp_path / name, name, {"acc": RNG.random(40).tolist()}, docs=docs)
    (paired,) = pair_tasks(find_contestants([tmp_path / "a", tmp_path / "b"]))
    (one,) = task_differences(paired)
    assert len(paired.keys) == 40 and one.method == "clustered t"


def test_everything_that_differs_is_named(tmp_path: Path) -> None:
    values = {"acc": [0.0, 1.0, 1.0, 0.0, 1.0]}
    write_results(tmp_path / "a", "m", values)
    write_results(
        tmp_path / "b", "m", values, first_item=2, version=2, prompt="Ask {i}",
        config={
            "generation_kwargs": {"temperature": 1.0, "max_gen_toks": 32}, "repeats": 8,
            "metadata": {"lmrel": {"seed": 3}},
        },
        run={"limit": 5.0, "random_seed": 9},
    )  # fmt: skip
    (paired,) = pair_tasks(find_contestants([tmp_path / "a", tmp_path / "b"]))
    found = find_mismatches(paired)
    texts = "\n".join(f"{one.kind}: {one.text}" for one in found)
    for part in (
        "item sets: t: 2 of 5 items of a are not in all the others",
        "item sets: t: limit differs: not set (a), 5.0 (b)",
        "prompts: t: 3 of 3 shared items were asked with another prompt",
        "prompts: t: doc_to_text differs",
        "versions: t: version differs: 1 (a), 2 (b)",
        "generation settings: t: generation_kwargs.temperature differs: 0.7 (a), 1.0 (b)",
        "generation settings: t: repeats differs: 1 (a), 8 (b)",
        "seeds: t: random_seed differs: 0 (a), 9 (b)",
        "seeds: t: metadata.lmrel.seed differs: not set (a), 3 (b)",
    ):
        assert part in texts
    assert {one.kind for one in found if not one.serious} == {"seeds"}


def test_seeds_of_several_tasks_are_one_line(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    for name, seed in (("a", 1), ("b", 2)):
        for task in ("t", "u"):
            write_results(
                tmp_path / name, name, {"acc": [0.0, 1.0, 1.0]}, task=task,
                date=f"2026-01-0{'tu'.index(task) + 1}T00-00-00.000000",
                run={"random_seed": seed, "torch_seed": seed},
            )  # fmt: skip
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "seed, " in line]
    assert lines == ["- seeds: random_seed, torch_seed differ in t, u (--json lists the values)"]


def test_equal_results_have_no_mismatch(tmp_path: Path) -> None:
    for name in "ab":
        write_results(tmp_path / name, name, {"acc": [0.0, 1.0]})
    (paired,) = pair_tasks(find_contestants([tmp_path / "a", tmp_path / "b"]))
    assert find_mismatches(paired) == []


# The command -----------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(2)
    chance = rng.beta(2, 2, 200)
    for name, shift in (("a", 0), ("b", 0), ("c", 0.25)):
        acc = (rng.random(200) < chance + shift).astype(float)
        write_results(tmp_path / name, f"org/{name}", {"acc": acc.tolist()})
    return [str(tmp_path / name) for name in "abc"]


def test_the_command_writes_markdown_csv_json_and_a_plot(
    three: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / "new" / f"x.{end}") for end in ("csv", "json", "png")]
    options = [
        part for pair in zip(("--csv", "--json", "--plot"), files, strict=True) for part in pair
    ]
    assert main(["compare", *three, *options]) == 0
    out = capsys.readouterr().out
    assert out.index("## Not the same") < out.index("## Differences") < out.index("## Ranks")
    assert "| org/a − org/b |" in out and "org/c better" in out and "not separable" in out
    with open(files[0], encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    content = json.loads(Path(files[1]).read_text(encoding="utf-8"))
    assert len(rows) == len(content["differences"]) == 3
    assert float(rows[0]["difference"]) == content["differences"][0]["difference"]
    assert [one["rank"] for one in content["ranks"]] == [1, 2, 2]
    assert Path(files[2]).read_bytes().startswith(b"\x89PNG")


def test_several_models_in_one_folder_are_compared(
    three: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(tmp_path)]) == 0
    assert "**org/c**" in capsys.readouterr().out


def test_the_newest_date_is_used_and_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path / "a", "a", {"acc": [0.0, 0.0, 0.0]}, date="2026-01-01T00-00-00.0")
    write_results(tmp_path / "a", "a", {"acc": [1.0, 1.0, 0.0]}, date="2026-02-01T00-00-00.0")
    write_results(tmp_path / "b", "b", {"acc": [1.0, 1.0, 0.0]})
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out = capsys.readouterr().out
    assert "results of 2 dates; the newest, 2026-02-01T00-00-00.0, is used" in out
    assert "| +0.0000 " in out


def test_missing_samples_say_which_flag_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        write_results(tmp_path / name, name, {"acc": [0.0, 1.0]}, samples=False)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "--log_samples" in capsys.readouterr().err


def test_half_written_files_are_named_and_the_rest_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for name in "ab":
        path = write_results(tmp_path / name, name, {"acc": RNG.random(20).tolist()})
    samples = next(path.parent.glob("samples_*"))
    text = samples.read_text(encoding="utf-8")
    samples.write_text(text[: int(len(text) * 0.72)], encoding="utf-8")
    path.with_name("results_2027-01-01.json").write_text('{"results": {"t"', encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out = capsys.readouterr().out
    assert "the samples of b hold 14 of 20 items (a half-written file?)" in out
    assert "|    14 |" in out
    assert "results_2027-01-01.json: not a readable results file" in caplog.text
    assert "line 15" in caplog.text


def test_strict_shows_no_numbers_when_more_than_the_model_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path / "a", "a", {"acc": [0.0, 1.0]})
    write_results(tmp_path / "b", "b", {"acc": [0.0, 1.0]}, version=2)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--strict"]) == 1
    out = capsys.readouterr().out
    assert "version differs" in out and "## Differences" not in out


def test_a_name_stays_on_its_line_and_the_alphas_allowed_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, values in (("a", [1.0, 0.0] * 25), ("b", [0.0, 1.0] * 25)):
        write_results(tmp_path / name, name, {"acc": values})
    command = ["compare", str(tmp_path / "a"), str(tmp_path / "b")]
    assert main([*command, "--name", "one", "--name", " two\n# parts\r"]) == 0
    out = capsys.readouterr().out
    assert "\n- **two # parts**: b, from" in out and "\n# parts" not in out
    for alpha in ("1e-6", "0.5"):
        assert main([*command, "--alpha", alpha]) == 0


def test_a_renamed_result_is_older_than_a_dated_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        path = write_results(tmp_path / name, name, {"acc": [1.0, 0.0, 1.0]})
    path.with_name("results_old.json").write_bytes(path.read_bytes())
    found = find_contestants([tmp_path / "a", tmp_path / "b"])
    assert [one.date[:4] for one in found[1].evaluations] == ["old", "2026"]


@pytest.mark.parametrize(
    "folders, options, message",
    [
        ("a", [], "only one model"),
        ("aa", [], "give it once"),
        ("ab", ["--task", "nothing"], "there are t"),
        ("ab", ["--metric", "nothing"], "no metric is called nothing; there are acc, exact"),
        ("ab", ["--metric", "exact_mach"], "exact_mach; did you mean exact_match?"),
        ("ab", ["--metric", "exact_match"], "nothing could be compared; the notes say why"),
        ("ab", ["--task", "tt"], "no results of task tt; did you mean t?; there are t"),
        ("ab", ["--alpha", "5"], "did you mean 0.05"),
        ("ab", ["--alpha", "0.9999999999999999"], "--alpha must lie between 1e-06 and 0.5"),
        ("ab", ["--alpha", "1e-300"], "--alpha must lie between 1e-06 and 0.5"),
        ("ab", ["--name", "x", "--name", " \n"], "--name must not be empty"),
        ("ab", ["--name", "x y", "--name", "x\ny"], "all different"),
        ("ab", ["--name", "x"], "--name must be given once for each"),
        ("ab", ["--cluster", "passage"], "no field 'passage'"),
        ("ab", ["--plot", "x.nothing"], "ends in .png"),
    ],
)
def test_wrong_use_is_explained(
    folders: str, options: list[str], message: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in "ab":
        more = {"exact_match": [1.0, 1.0, 0.0]} if name == "a" else {}
        write_results(tmp_path / name, name, {"acc": [0.0, 1.0, 1.0], **more})
    assert main(["compare", *(str(tmp_path / name) for name in folders), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_hundred_thousand_lines_are_streamed(tmp_path: Path) -> None:
    """Two files of 100,000 samples of 1 kB: at most 1 GB of memory and 30 s of processor time."""
    n = 100_000
    run = json.dumps({"seed": 1, "tokens": 30, "finish_reason": "stop", "entropy": 0.5312345})
    cell = ", ".join([run] * 5)
    hashes = [digest(str(i)) for i in range(n)]
    for name in "ab":
        write_results(tmp_path / name, name, {"acc": [0.5, 0.5]}, samples=False)
        rng = np.random.default_rng(ord(name))
        acc = rng.integers(0, 11, n) / 10
        place = next((tmp_path / name).rglob("results_*")).with_name(
            "samples_t_2026-01-01T00-00-00.000000.jsonl"
        )
        with place.open("w", encoding="utf-8") as file:
            file.writelines(
                f'{{"doc_id": {i}, "doc": {{"id": {i}}}, "target": "x", "resps": [["an answer"]], '
                f'"filtered_resps": [["an answer"]], "filter": "none", "metrics": ["acc", "tar"], '
                f'"doc_hash": "{h}", "prompt_hash": "{h}", "target_hash": "{h}", "acc": {a}, '
                f'"tar": 1.0, "lmrel": {{"item": "{i}", "runs": [[{cell}]]}}}}\n'
                for i, (h, a) in enumerate(zip(hashes, acc, strict=True))
            )
    program = (
        "import resource, sys; from lmrel_tasks.cli import main; status = main(sys.argv[1:]); "
        "used = resource.getrusage(resource.RUSAGE_SELF); "
        "print(status, used.ru_maxrss // 1024, used.ru_utime + used.ru_stime, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "compare", str(tmp_path / "a"), str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, megabytes, seconds = done.stderr.split()[-3:]
    assert status == "0" and f"| {n} |" in done.stdout
    assert int(megabytes) <= 1024
    assert float(seconds) <= 30


def test_folders_that_the_harness_wrote_are_compared_and_gated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fakes import ScriptedLM, evaluate, write_task
    from lm_eval.loggers import EvaluationTracker

    items = [{"question": f"Item {i}?", "answer": "yes"} for i in range(24)]
    metrics = ["acc", "answer_agreement", "reliability_level", "reliability_lower"]
    write_task(
        tmp_path, "asked", items, metric_list=[{"metric": one} for one in metrics],
        filter_list=[{"name": "none", "filter": [{"function": "answer", "kind": "text"}]}],
    )  # fmt: skip
    for name, share in (("good", 24), ("bad", 4)):

        def answer(prompt: str, run: int, share: int = share) -> str:
            return "yes" if int(prompt.split()[1].rstrip("?")) < share else f"no {run}"

        result = evaluate(ScriptedLM(answer), tmp_path, "asked")
        tracker = EvaluationTracker(output_path=str(tmp_path / name))
        tracker.general_config_tracker.model_name = name
        tracker.general_config_tracker.model_name_sanitized = name
        tracker.save_results_aggregated(results=result, samples=result["samples"])
        tracker.save_results_samples("asked", result["samples"]["asked"])
    folders = [str(tmp_path / name) for name in ("good", "bad")]
    files = ["--json", str(tmp_path / "x.json")]
    assert main(["compare", *folders, *files]) == 0
    out = capsys.readouterr().out
    assert "Items, prompts, targets, versions and generation settings are the same." in out
    assert "reliability_lower is a confidence bound" in out
    content = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    found = {one["metric"]: one for one in content["differences"]}
    assert set(found) == set(metrics[:3])
    assert {one["winner"] for one in found.values()} == {"good"}
    assert found["acc"]["difference"] == pytest.approx(20 / 24)
    # the level has n + 1 in its denominator
    assert found["reliability_level"]["first_value"] == pytest.approx(24 / 25)
    assert found["reliability_level"]["difference"] == pytest.approx(20 / 25)
    path = tmp_path / "gate.yaml"
    path.write_text("asked: {reliability_lower: '>= 0.85', acc: '>= 0.8 with 95% confidence'}")
    assert main(["gate", str(path), folders[0]]) == 0
    assert main(["gate", str(path), *folders]) == 1
