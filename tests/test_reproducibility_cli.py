"""``lmrel reproducibility`` and ``lmrel rr`` on results of the harness, recomputed by hand."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from fakes import ScriptedLM, evaluate, write_task
from scipy import stats

from lmrel_tasks import embedder
from lmrel_tasks.cli import main
from lmrel_tasks.comparing import equivalence, pairwise
from lmrel_tasks.gauge_tables import gauge_table
from lmrel_tasks.metrics.cosine import cell_sums, stack_cells
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.study import Study

RUNS, N = 4, 12
CONDITIONS = ("plain", "polite", "terse")
ITEMS = [{"question": f"q{i:02d}?", "answer": "yes"} for i in range(N)]
CONFIG = {
    "repeats": RUNS,
    "metadata": {"lmrel": {"conditions": [
        {"name": "plain"},
        {"name": "polite", "doc_to_text": "Please: {{question}}"},
        {"name": "terse", "doc_to_text": "{{question}} Short."},
    ]}},
}  # fmt: skip


def drawn(prompt: str, run: int, shift: float = 0.0) -> tuple[str, float]:
    """Text and certainty of a run, from its item, its condition and its number."""
    item = int(prompt[prompt.index("q") + 1 :][:2])
    condition = 1 if prompt.startswith("Please") else 2 if prompt.endswith("Short.") else 0
    noise = np.random.default_rng([item, condition, run, 7])
    right = noise.random() < (0.9, 0.75, 0.3)[condition]
    certainty = 0.6 + 0.01 * item + 0.08 * right - 0.05 * (condition == 2) + shift
    return ("Yes" if right else f"no {noise.integers(2)}"), certainty + noise.normal(0, 0.02)


def model(shift: float = 0.0, flip: bool = False) -> ScriptedLM:
    def answer(prompt: str, run: int) -> Run:
        text, certainty = drawn(prompt, run + (50 if flip else 0), shift)
        return Run(text, Capture(certainty=certainty, entropy=1.0, tokens=2, finish_reason="stop"))

    return ScriptedLM(answer)


def vector(text: str) -> np.ndarray:
    x = np.random.default_rng(len(text) + 31 * ord(text[-1])).normal(size=5) + 1
    return x / np.linalg.norm(x)


def stored(folder: Path, lm: ScriptedLM, name: str) -> Path:
    """Results and samples as the harness's own tracker writes them."""
    from lm_eval.loggers import EvaluationTracker

    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True, parents=True)
    write_task(tasks, "t", ITEMS, **CONFIG)
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    results = evaluate(lm, tasks, "t", evaluation_tracker=tracker)
    samples = results.pop("samples")
    tracker.general_config_tracker.model_name = name
    tracker.general_config_tracker.model_name_sanitized = name
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task_name="t", samples=samples["t"])
    return folder / "out"


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("studies")
    first = stored(folder / "a", model(), "first")
    second = stored(folder / "b", model(-0.1, flip=True), "second")
    return first, second


@pytest.fixture(scope="module", autouse=True)
def embedded() -> Iterator[list[str]]:
    """A quick embedder in place of the real one; what it was asked for."""
    asked: list[str] = []

    def encoder(name: str | None = None):
        def encode(texts: list[str]) -> np.ndarray:
            asked.extend(texts)
            return np.array([vector(text) for text in texts], dtype=np.float32)

        return encode

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedder, "encoder", encoder)
        yield asked


def prompts(item: int) -> list[str]:
    q = f"q{item:02d}?"
    return [q, f"Please: {q}", f"{q} Short."]


def by_hand(shift: float = 0.0, flip: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Certainty (I, P, R), correctness likewise, and texts."""
    cells = [
        [[drawn(p, r + (50 if flip else 0), shift) for r in range(RUNS)] for p in prompts(i)]
        for i in range(N)
    ]
    certainty = np.array([[[c for _, c in cell] for cell in row] for row in cells])
    texts = np.array([[[t for t, _ in cell] for cell in row] for row in cells])
    return certainty, (texts == "Yes").astype(float), texts


def rows_of(folder: Path, table: str, name: str = "reproducibility") -> list[dict[str, str]]:
    with (folder / f"{name}_{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def pick(rows: list[dict[str, str]], **wanted: str) -> dict[str, str]:
    (row,) = [row for row in rows if all(row[k] == v for k, v in wanted.items())]
    return row


def number(row: dict[str, str], key: str) -> float:
    return float(row[key])


@pytest.fixture(scope="module")
def written(results, tmp_path_factory, embedded) -> tuple[Path, str, list[str]]:
    """Folder with the tables of one study, what was printed, and what was embedded."""
    folder = tmp_path_factory.mktemp("analysis")
    embedded.clear()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["reproducibility", str(results[0]), "--output", str(folder)]) == 0
    return folder, printed.getvalue(), list(embedded)


def test_summary_equals_hand_computation(written) -> None:
    certainty, right, texts = by_hand()
    rows = rows_of(written[0], "summary")
    for p, name in enumerate(CONDITIONS):
        row = pick(rows, metric="internal_repeatability", condition=name)
        assert number(row, "mean") == pytest.approx(certainty[:, p].mean())
        assert number(row, "ci_low") < number(row, "mean") < number(row, "ci_high")
        assert number(pick(rows, metric="acc", condition=name), "mean") == pytest.approx(
            right[:, p].mean()
        )
    means = certainty.mean(axis=2)
    gaps = np.abs(means[:, :, None] - means[:, None, :]).sum(axis=(1, 2)) / 6
    row = pick(rows, metric="internal_reproducibility", condition="all")
    assert number(row, "mean") == pytest.approx(1 - gaps.mean())
    e = np.array([[[vector(t) for t in cell] for cell in item] for item in texts])
    total = e.sum(axis=2)
    within = ((total**2).sum(axis=-1) - RUNS) / (RUNS * (RUNS - 1))
    row = pick(rows, metric="semantic_repeatability", condition="all")
    assert number(row, "mean") == pytest.approx(within.mean(), abs=1e-6)
    # Unique texts only, each once.
    assert sorted(written[2]) == sorted(set(texts.ravel()))


def test_pairs_equal_scipy_with_holm(written) -> None:
    certainty = by_hand()[0].mean(axis=2)
    rows = rows_of(written[0], "pairs")
    pairs = [(0, 1), (0, 2), (1, 2)]
    raw = [stats.wilcoxon(certainty[:, p], certainty[:, q]).pvalue for p, q in pairs]
    order = np.argsort(raw)
    holm = np.empty(3)
    holm[order] = np.minimum(np.maximum.accumulate(np.array(raw)[order] * [3, 2, 1]), 1)
    for (p, q), p_raw, p_holm in zip(pairs, raw, holm, strict=True):
        row = pick(rows, metric="internal_repeatability", first=CONDITIONS[p], second=CONDITIONS[q])
        assert number(row, "difference") == pytest.approx(
            (certainty[:, p] - certainty[:, q]).mean()
        )
        assert number(row, "wilcoxon_p") == pytest.approx(p_raw)
        assert number(row, "wilcoxon_p_holm") == pytest.approx(p_holm)
        assert number(row, "t_p") == pytest.approx(
            stats.ttest_rel(certainty[:, p], certainty[:, q]).pvalue
        )
    test = stats.friedmanchisquare(*certainty.T)
    row = pick(rows_of(written[0], "friedman"), metric="internal_repeatability")
    assert number(row, "p") == pytest.approx(test.pvalue)
    assert "internal_repeatability is higher with plain than with terse, by " in written[1]


def test_right_and_wrong_equal_scipy_and_statsmodels(written) -> None:
    certainty, right, _ = by_hand()
    rows = rows_of(written[0], "right_wrong")
    p = CONDITIONS.index("terse")
    shares, means = right[:, p].mean(axis=1), certainty[:, p].mean(axis=1)
    one, other = means[shares > 0.5], means[shares < 0.5]
    assert len(one) and len(other)
    test = stats.mannwhitneyu(one, other)
    row = pick(rows, metric="internal_repeatability", condition="terse")
    assert number(row, "p") == pytest.approx(test.pvalue)
    assert (int(row["right"]), int(row["wrong"])) == (len(one), len(other))
    assert number(row, "mean_right") == pytest.approx(one.mean())
    frame = pd.DataFrame({
        "y": certainty[:, p].ravel(), "x": right[:, p].ravel(), "i": np.repeat(range(N), RUNS),
    })  # fmt: skip
    fit = smf.mixedlm("y ~ x", frame, groups=frame["i"]).fit(reml=True)
    row = pick(rows_of(written[0], "mixed"), metric="certainty", condition="terse")
    assert number(row, "coefficient") == pytest.approx(fit.params["x"], rel=1e-3)
    assert number(row, "stderr") == pytest.approx(fit.bse["x"], rel=1e-2)
    assert "with terse, right runs have a detectable difference in certainty" in written[1]


def test_noninferiority_is_against_the_reference(results, tmp_path, capsys) -> None:
    out = tmp_path / "r"
    command = ["reproducibility", str(results[0]), "--no-meaning", "--output", str(out)]
    assert main([*command, "--reference", "polite", "--margin", "0.2"]) == 0
    certainty = by_hand()[0].mean(axis=2)
    rows = rows_of(out, "noninferiority")
    assert {row["reference"] for row in rows} == {"polite"}
    gap = certainty[:, 2] - certainty[:, 1]
    row = pick(rows, metric="internal_repeatability", condition="terse")
    assert number(row, "difference") == pytest.approx(gap.mean())
    half = stats.t.ppf(0.975, N - 1) * gap.std(ddof=1) / math.sqrt(N)
    assert number(row, "lower_bound") == pytest.approx(gap.mean() - half, abs=0.3 * half)
    assert row["noninferior"] == "True"
    assert "terse is noninferior to polite in internal_repeatability" in capsys.readouterr().out
    assert not any("semantic" in row["metric"] for row in rows)
    assert main([*command, "--reference", "formal"]) == 2
    assert "--reference 'formal' is none of plain, polite, terse" in capsys.readouterr().err


def test_models_are_conditions(results, tmp_path, capsys) -> None:
    out = tmp_path / "r"
    assert main(["reproducibility", *map(str, results), "--output", str(out)]) == 0
    first, second = by_hand(), by_hand(-0.1, flip=True)
    gap = first[0].mean(axis=(1, 2)) - second[0].mean(axis=(1, 2))
    row = pick(rows_of(out, "models_pairs"), metric="internal_repeatability")
    assert (row["first"], row["second"]) == ("first", "second")
    assert number(row, "difference") == pytest.approx(gap.mean())
    assert number(row, "wilcoxon_p") == pytest.approx(stats.wilcoxon(gap).pvalue)
    rows = rows_of(out, "models_reproducibility")
    e = [np.array([[[vector(t) for t in c] for c in i] for i in x[2]]).mean(axis=2)
         for x in (first, second)]  # fmt: skip
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in e]
    cosine = (unit[0] * unit[1]).sum(axis=-1)
    for p, name in enumerate(CONDITIONS):
        row = pick(rows, metric="semantic_reproducibility", condition=name)
        assert number(row, "mean") == pytest.approx(cosine[:, p].mean(), abs=1e-6)
    row = pick(rows, metric="semantic_reproducibility", condition="all")
    assert number(row, "mean") == pytest.approx(cosine.mean(), abs=1e-6)
    assert "across 2 models answer_reproducibility is" in capsys.readouterr().out


def test_json_holds_every_table_and_finding(written) -> None:
    content = json.loads((written[0] / "reproducibility.json").read_text(encoding="utf-8"))
    assert set(content["tables"]) == {
        "summary", "pairs", "friedman", "noninferiority", "right_wrong", "mixed",
    }  # fmt: skip
    assert all(sentence in written[1] for sentence in content["findings"])
    assert len(content["tables"]["pairs"]) == len(rows_of(written[0], "pairs"))


def test_gauge_table_equals_anova(results, tmp_path, capsys) -> None:
    out = tmp_path / "r"
    assert main(["rr", str(results[0]), "--output", str(out), "--resamples", "200"]) == 0
    certainty, right, texts = by_hand()
    rows = rows_of(out, "gauge", "rr")
    run = certainty.var(axis=2, ddof=1).mean()
    cell = RUNS * (
        (certainty.mean(axis=2) - certainty.mean(axis=(1, 2))[:, None]
         - certainty.mean(axis=(0, 2)) + certainty.mean()) ** 2
    ).sum() / ((N - 1) * 2)  # fmt: skip
    prompt = N * RUNS * certainty.mean(axis=(0, 2)).var(ddof=1)
    between = max((cell - run) / RUNS + (prompt - cell) / (N * RUNS), 0)
    for quantity, value in (
        ("s_r (repeatability)", math.sqrt(run)),
        ("s_L (between conditions)", math.sqrt(between)),
        ("s_R (reproducibility)", math.sqrt(run + between)),
        ("r = 2.8 s_r", 2.8 * math.sqrt(run)),
        ("R = 2.8 s_R", 2.8 * math.sqrt(run + between)),
    ):
        row = pick(rows, measure="certainty", quantity=quantity)
        assert number(row, "estimate") == pytest.approx(value)
        assert number(row, "ci_low") < value < number(row, "ci_high")
    shares = [number(r, "estimate") for r in rows
              if r["measure"] == "meaning" and r["quantity"].startswith("var_")]  # fmt: skip
    assert len(shares) == 4 and sum(shares) == pytest.approx(100)
    assert not [r for r in rows if r["measure"] == "meaning" and "2.8" in r["quantity"]]
    told = capsys.readouterr().out
    differ = 200 * right.var(axis=2, ddof=1).mean()
    assert f"two runs under one condition differ in correctness in {differ:.0f} % of cases" in told
    e = np.array([[[vector(t) for t in c] for c in i] for i in texts]).sum(axis=2)
    w = (((e**2).sum(axis=-1) - RUNS) / (RUNS * (RUNS - 1))).mean()
    assert f"two runs under one condition have a mean cosine of {w:.3f}" in told


def test_items_without_spread_and_without_values_are_not_judged() -> None:
    alike = {"acc": np.zeros((4, 2))}
    table = equivalence(("t", "m"), ["plain", "polite"], alike, "plain", 0.05)
    (sentence,) = table.findings
    assert "cannot be judged: all 4 items agree exactly" in sentence
    assert "; 72 such items would rule it out" in sentence
    assert table.records()[0]["noninferior"] == "cannot be judged"
    many = equivalence(("t", "m"), ["a", "b"], {"acc": np.zeros((72, 2))}, "a", 0.05)
    assert "b is noninferior to a in acc" in many.findings[0]
    nothing = pairwise(("t", "m"), ["a", "b"], {"acc": np.full((4, 2), np.nan)}, "prompts")
    assert nothing.findings == (
        "t: acc cannot be compared: no item has a value of it under two prompts.",
    )


def study_of(right: np.ndarray, vectors: np.ndarray) -> Study:
    """A study from (I, P, R) correctness and (I, P, R, d) vectors, NaN for an empty text."""
    shape = right.shape
    names = tuple(f"c{p}" for p in range(shape[1]))
    cells = stack_cells([stack_cells([cell_sums(cell) for cell in row]) for row in vectors])
    nothing = np.full(shape, np.nan)
    return Study(
        "m", "t", "none", names, tuple(f"i{i}" for i in range(shape[0])), nothing, right,
        nothing, [[("a",) * shape[2]] * shape[1]] * shape[0], cells, {},
    )  # fmt: skip


def test_gauge_table_is_consistent_where_runs_are_empty() -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 2, 3, 8))
    # Each item has texts under one condition, and not the same one.
    vectors[0, 1] = vectors[1, 0] = np.nan
    table = gauge_table(study_of(np.ones((2, 2, 3)), vectors), 100)
    meaning = [row for row in table.records() if row["measure"] == "meaning"]
    assert [row["quantity"] for row in meaning] == ["s_r (repeatability)"]
    assert any("meaning lies where is n/a" in sentence for sentence in table.findings)
    assert not any("of the variance of meaning, " in sentence for sentence in table.findings)


def test_gauge_table_of_right_and_wrong_has_no_limits_and_no_noise() -> None:
    right = (np.random.default_rng(1).random((6, 2, 4)) < 0.5).astype(float)
    same = np.broadcast_to(np.random.default_rng(2).normal(size=8), (6, 2, 4, 8))
    table = gauge_table(study_of(right, same), 100)
    rows = table.records()
    correctness = [row["quantity"] for row in rows if row["measure"] == "correctness"]
    assert "s_r (repeatability)" in correctness and not any("2.8" in name for name in correctness)
    assert any("0 or 1 differ by 0 or 1" in sentence for sentence in table.findings)
    for row in rows:
        if row["measure"] == "meaning":
            assert row["estimate"] == row["ci_low"] == row["ci_high"] == 0
    assert any("meaning does not vary at all" in sentence for sentence in table.findings)


def test_bad_use_is_told(results, tmp_path, capsys) -> None:
    for arguments, words in (
        (["reproducibility", str(tmp_path / "none")], "no such file or folder"),
        (["reproducibility", str(results[0]), "--task", "u"], "no results of task u; there are t"),
        (["reproducibility", str(results[0]), "--filter", "x"], "no samples of filter x; there"),
        (["reproducibility", str(results[0]), "--margin", "-1"], "--margin must not be negative"),
        (["rr", str(results[0]), "--resamples", "5"], "--resamples must be at least 100"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
