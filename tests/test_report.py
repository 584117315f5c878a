"""The report: its numbers, its size, and how it opens and behaves in a real browser."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lmrel_tasks.cli import main
from lmrel_tasks.reporting.differences import visible, word_differences
from lmrel_tasks.reporting.gather import gather
from lmrel_tasks.reporting.headline import Headline, headlines
from lmrel_tasks.results import find_evaluations
from tests.browser import CHROMIUM, DRIVER, Browser
from tests.saved_results import ITEMS, evaluation, save, unsteady

HOSTILE = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</pre></details></template></section><h1 id=owned>owned</h1>",
    "line\u2028separator\u2029here",
    "lone \ud800 surrogate \udfff",
    "nul \x00 bell \x07 escape \x1b[31m",
    "{{ 7 * 7 }} {% raw %} $x^2$ &amp; &#60;b&#62;",
    "\u202eright to left override",
]
METRICS = (
    "acc", "semantic_repeatability", "answer_agreement", "internal_repeatability",
    "internal_stability", "tar_answer", "mode_acc", "reliability_level", "reliability_lower",
    "coverage",
)  # fmt: skip
FILTERS = [
    {"name": "none", "filter": [{"function": "answer", "kind": "numeric"}, {"function": "embed"}]}
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task of two conditions, and one whose model answers with hostile texts."""
    root = tmp_path_factory.mktemp("report")
    steady = evaluation(
        root / "a", "m", "numbers", ITEMS, unsteady(0.6), filter_list=FILTERS, repeats=6,
        metric_list=[{"metric": name} for name in METRICS],
        metadata={"version": 1, "lmrel": {"conditions": [
            {"name": "plain"}, {"name": "terse", "description": "Short: "},
        ]}},
    )  # fmt: skip
    save(steady, root / "out", "org/one")
    hostile = evaluation(
        root / "b", "m", "hostile",
        [{"question": f"{text[:40]!r} {n}?", "answer": "x"} for n, text in enumerate(HOSTILE)],
        lambda prompt, index: HOSTILE[(len(prompt) + index) % len(HOSTILE)],
    )  # fmt: skip
    # The harness cannot write lone surrogates; JSON can carry them escaped.
    path = save(_plain(hostile), root / "out", "</title><script>document.title='owned'</script>")
    samples = path.with_name(path.name.replace("results_", "samples_hostile_") + "l")
    samples.write_text(samples.read_text().replace("lone ? surrogate ?", "lone \\ud800 \\udfff"))
    return root / "out"


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _plain(dict.__getitem__(value, key)) for key in dict.keys(value)}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(one) for one in value)
    return value


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    path = folder.parent / "report.html"
    assert main(["report", str(folder), "-o", str(path)]) == 0
    return path


class _Downloads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.addresses += [v or "" for k, v in attrs if k in ("href", "src", "xlink:href")]
        if "download" in given:
            raw = base64.b64decode((given["href"] or "").split(",", 1)[1])
            self.found[str(given["download"])] = list(csv.reader(io.StringIO(raw.decode())))


def read(path: Path) -> _Downloads:
    parser = _Downloads()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


# Numbers ---------------------------------------------------------------------------------------


def test_headline_is_that_of_the_results_file(folder: Path, page: Path) -> None:
    one = next(x for x in find_evaluations([folder]) if "numbers" in x.tasks)
    table = read(page).found["numbers_table.csv"]
    rows = {f"{row[0]},{row[1]}": row for row in table[1:]}
    for key, value in one.content["results"]["numbers"].items():
        if "," not in key or "_stderr," in key:
            continue
        assert float(rows[key][2]) == value
        error = one.content["results"]["numbers"][key.replace(",", "_stderr,")]
        assert rows[key][3] == ("" if error == "N/A" else repr(error))
    low, high = map(float, rows["mode_acc@plain,none"][4:6])
    assert rows["mode_acc@plain,none"][6] == "exact"
    from statsmodels.stats.proportion import proportion_confint

    share = float(rows["mode_acc@plain,none"][2])
    assert (low, high) == pytest.approx(proportion_confint(round(12 * share), 12, method="beta"))
    value, error, low = (float(rows["semantic_repeatability,none"][at]) for at in (2, 3, 4))
    assert low == pytest.approx(stats.t.interval(0.95, len(ITEMS) - 1, value, error)[0])


def rows_of(path: Path, task: str = "t", samples: bool = True) -> dict[str, Headline]:
    (one,) = find_evaluations([path])
    values = gather(one, task).values if samples else {}
    return {row.metric: row for row in headlines(one, task, values)}


def test_few_items_have_the_interval_that_the_gate_goes_by(tmp_path: Path) -> None:
    from lmrel_tasks.gating import judge, read_condition
    from tests.result_folders import write_results

    values = {"score": [0.2, 0.9, 0.7], "acc": [1.0, 1.0, 0.0], "long": [3.0, 40.0, 8.0]}
    write_results(tmp_path, "m", values)
    rows = rows_of(tmp_path)
    for metric, column in values.items():
        ends = [
            judge([read_condition("t", metric, f"{sign} 0 with 97.5% confidence")],
                  find_evaluations([tmp_path]))[0].tested
            for sign in (">=", "<=")
        ]  # fmt: skip
        if metric == "score":
            expected = stats.t.interval(0.95, 2, np.mean(column), stats.sem(column))
            assert ends == pytest.approx(expected) and ends[0] < 0 and ends[1] > 1
            ends = [0.0, 1.0]
        assert [rows[metric].ci_low, rows[metric].ci_high] == pytest.approx(ends), metric
    assert [rows[name].method for name in values] == ["t", "exact", "t"]


@pytest.mark.parametrize(
    ("metric", "items", "reported", "ends"),
    [
        # Without spread, unless by definition a share.
        ("answer_agreement", [1.0, 1.0], {}, None),
        ("mi_targeted", [0.0, 0.0], {"mi_targeted,none": 2e-16, "mi_targeted_stderr,none": 3e-16},
         None),
        ("mode_acc", [1.0, 1.0], {}, (0.025**0.5, 1.0)),
        # What the items show is not what the value is a mean of.
        ("direction_beta", [0.0] * 4, {"direction_beta,none": -0.4,
                                       "direction_beta_stderr,none": 0.5},
         stats.t.interval(0.95, 3, -0.4, 0.5)),
        # The interval of the metric's own test, if it says anything.
        ("jsd_excess", [0.1, 0.2], {"jsd_excess_ci_low,none": -1.0, "jsd_excess_ci_high,none": 2.0},
         (-1.0, 2.0)),
        ("jsd_excess", [0.1, 0.2], {"jsd_excess_ci_low,none": -np.inf,
                                    "jsd_excess_ci_high,none": np.inf}, None),
        ("flip_excess", [0.1, 0.2], {"flip_excess_ci_low,none": 0.0,
                                     "flip_excess_ci_high,none": 0.0}, None),
        # The level is n / (n + 1) of a share.
        ("reliability_level", [1.0, 1.0], {"reliability_level,none": 2 / 3}, (0.025**0.5, 1.0)),
    ],
)  # fmt: skip
def test_an_interval_holds_its_value_or_is_not_shown(
    tmp_path: Path, metric: str, items: list[float], reported: dict[str, float], ends: Any
) -> None:
    from tests.result_folders import write_results

    write_results(tmp_path, "m", {metric: items}, reported=reported)
    row = rows_of(tmp_path)[metric]
    if ends is None:
        assert (row.ci_low, row.ci_high, row.method) == (None, None, "")
    else:
        assert (row.ci_low, row.ci_high) == pytest.approx(ends)
        assert row.value is not None and ends[0] <= row.value <= ends[1]


def test_intervals_of_groups_stay_where_the_metric_can_lie(tmp_path: Path) -> None:
    from tests.result_folders import write_results

    path = write_results(tmp_path, "m", {"internal_stability": [0.9, 0.95]})
    content = json.loads(path.read_text())
    numbers = {"internal_stability": 0.92, "answer_agreement": 0.1, "own_share": 0.9, "length": 9.0}
    content["results"]["g"] = {f"{name},none": value for name, value in numbers.items()}
    content["results"]["g"] |= {f"{name}_stderr,none": 0.06 for name in numbers} | {"sample_len": 6}
    content |= {"groups": {"g": {}}, "group_subtasks": {"g": ["t", "u", "v"]}}
    path.write_text(json.dumps(content))
    rows = rows_of(tmp_path, "g", samples=False)
    # Three tasks of two items each leave three degrees of freedom.
    half = stats.t.ppf(0.975, 3) * 0.06
    assert (rows["internal_stability"].ci_low, rows["internal_stability"].ci_high) == (
        pytest.approx(0.92 - half), 1.0,
    )  # fmt: skip
    assert rows["answer_agreement"].ci_low == 0 and rows["length"].ci_high == 9 + half
    assert rows["own_share"].ci_low is None and rows["own_share"].ci_high is None


def test_every_figure_has_a_caption_and_its_data(page: Path) -> None:
    text = page.read_text()
    figures = re.findall(r"<figure>.*?</figure>", text, re.S)
    assert len(figures) >= 4
    for figure in figures:
        caption = re.search(r"<figcaption>(.*?)</figcaption>", figure, re.S)
        assert caption and len(caption[1]) > 100
        assert "download=" in caption[1]
    data = read(page).found
    assert len(data["numbers_repeatability.csv"]) == 1 + len(ITEMS)
    curve = data["numbers_reliability.csv"]
    assert curve[0][:3] == ["alpha", "level", "lower_bound"]
    shares: dict[str, float] = {}
    for measure, _, percent, _ in data["numbers_variance.csv"][1:]:
        shares[measure] = shares.get(measure, 0.0) + float(percent)
    assert set(shares) >= {"certainty", "correctness"} - {"certainty"}
    # Where no number of answers suffices there is no size either, in the data as in the drawing.
    infeasible = [row for row in curve[1:] if not row[3]]
    assert infeasible and len(infeasible) < len(curve) - 1
    assert all(not row[4] for row in infeasible)
    assert "internal_repeatability that the model is certain of every token" in text
    assert all(total == pytest.approx(100) for total in shares.values())


def test_instability_orders_items_by_disagreement(folder: Path) -> None:
    one = next(x for x in find_evaluations([folder]) if "numbers" in x.tasks)
    report = gather(one, "numbers")
    from itertools import combinations

    for view in report.items:
        answers = [
            text.answer for _, texts in view.cells for text in texts for _ in range(text.count)
        ]
        pairs = list(combinations(answers, 2))
        expected = sum(a != b for a, b in pairs) / len(pairs)
        assert view.instability == pytest.approx(expected)
    order = [view.instability for view in report.items]
    assert order == sorted(order, reverse=True) and order[0] > order[-1] == 0
    shorter = gather(one, "numbers", max_items=3)
    assert [x.key for x in shorter.items] == [x.key for x in report.items[:3]]


def test_runs_without_an_answer_are_no_disagreement() -> None:
    from lmrel_tasks.metrics.agreement import answer_agreement
    from lmrel_tasks.metrics.item import Condition, Item
    from lmrel_tasks.reporting.items import LeastStable

    answers = {
        "same": ("a", "a", "a"), "some": ("a", "", "a", ""), "one": ("", "a", ""),
        "split": ("a", "b", "a", ""),
    }  # fmt: skip
    kept = LeastStable(10)
    for key, given in answers.items():
        texts = tuple(map(str, range(len(given))))
        certainty = np.full(len(given), np.nan)
        cell = Condition("x", texts=texts, answers=given, certainty=certainty, tokens=certainty)
        kept.add(Item(key, (cell,)), {"doc": {"question": key}})
    views = kept.views()
    assert [one.key for one in views] == ["split", "one", "some", "same"]
    assert [one.unanswered for one in views] == [1, 2, 2, 0]
    for one in views:
        agreed = answer_agreement(answers[one.key])
        assert (one.instability is None) == np.isnan(agreed)
        if one.instability is not None:
            assert one.instability == pytest.approx(1 - agreed)


def test_two_runs_of_a_model_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.result_folders import write_results

    for place, day in (("a", 1), ("a", 2), ("b", 1)):
        for task in ("t", "u"):
            write_results(
                tmp_path / place / task, "/models/m", {"acc": [0, 1, 1]}, task=task,
                date=f"2026-01-0{day}T10-20-30.5",
            )  # fmt: skip
    out = tmp_path / "r.html"

    def links(*arguments: str) -> list[str]:
        assert main(["report", *arguments, "-o", str(out)]) == 0
        return re.findall(r'<li><a href="#task\d+">(.*?)</a>', out.read_text())

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert links(a, b) == ["t · a", "u · a", "t · b", "u · b"]
    assert "2 tasks, 2 runs" in capsys.readouterr().err
    assert links(a, b, "--name", "old", "--name", "new")[::2] == ["t · old", "t · new"]
    assert links(a) == ["t", "u"]
    assert "2 tasks, 0" in capsys.readouterr().err
    assert links(a, "--all", "--tasks", "t") == [
        "t · m (2026-01-01 10:20:30)", "t · m (2026-01-02 10:20:30)",
    ]  # fmt: skip
    capsys.readouterr()
    assert main(["report", a, b, "--name", "x", "-o", str(out)]) == 2
    assert "--name must be given once for each" in capsys.readouterr().err
    # The same date in two folders of one path.
    (tmp_path / "b").rename(tmp_path / "a" / "b")
    found = links(a, "--all", "--tasks", "t")
    assert len(set(found)) == len(found) == 3


@pytest.mark.parametrize(
    ("text", "reference", "new"),
    [
        ("the cat sat", "the cat sat", []),
        ("the dog sat", "the cat sat", [" dog"]),
        ("the cat sat down", "the cat sat", [" down"]),
        ("sat", "the cat sat", []),
        ("", "the cat", []),
        ("a  b\n", "a b", []),
    ],
)
def test_word_differences_mark_new_words_only(text: str, reference: str, new: list[str]) -> None:
    pieces = word_differences(text, reference)
    assert "".join(piece for _, piece in pieces) == text
    assert [piece for kind, piece in pieces if kind == "new" and piece.strip()] == new


def test_visible_keeps_text_and_shows_the_rest() -> None:
    assert visible("a\ud800b\x00c\x1b\x7f\u2028d") == "a\ufffdb\u2400c\u241b\u2421\nd"
    assert visible("héllo\tworld\n") == "héllo\tworld\n"
    visible("".join(HOSTILE)).encode("utf-8")


def test_bias_section_shows_the_sides(tmp_path: Path) -> None:
    from tests.result_folders import write_results

    values = {
        f"jsd_{side}": list(np.linspace(0, top, 30))
        for side, top in (("targeted", 0.5), ("benign", 0.2), ("rerun", 0.1))
    }
    values["jsd_excess"] = list(np.linspace(0, 0.3, 30))
    write_results(tmp_path, "m", values)
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 0
    data = read(tmp_path / "r.html").found["t_bias.csv"]
    assert {(row[0], row[1]) for row in data[1:]} == {
        (f"jsd_{side}", side) for side in ("targeted", "benign", "rerun")
    }
    for row in data[1:]:
        assert float(row[3]) < float(row[2]) < float(row[4])


def test_bias_of_an_evaluation_has_the_intervals_of_its_tests(tmp_path: Path) -> None:
    from tests.fakes import evaluate
    from tests.option_models import CONDITIONS, OptionLM, bias_task

    def likes(prompt: str) -> dict[str, float]:
        p = 0.5 + 1e-3 * (sum(map(ord, prompt)) % 7)
        return {"yes": p, "no": 1 - p}

    texts = [{"text": f"case {n}", "edited": f"file {n}", "reworded": f"note {n}"}
             for n in range(12)]  # fmt: skip
    (tmp_path / "t").mkdir()
    bias_task(tmp_path / "t", texts, ["jsd_targeted", "jsd_excess"])
    results = evaluate(OptionLM(likes), tmp_path / "t", "t")
    row = results["results"]["t"]
    save(results, tmp_path / "out", "m")
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "r.html")]) == 0
    table = {line[0]: line for line in read(tmp_path / "r.html").found["t_table.csv"]}
    assert "jsd_excess_ci_low" not in table and "jsd_excess_p" in table
    ends = [float(one) for one in table["jsd_excess"][4:6]]
    assert ends == [row["jsd_excess_ci_low,none"], row["jsd_excess_ci_high,none"]]
    assert table["jsd_excess"][6] == "own"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    # Divergences of a few millionths are not shown as nothing.
    assert 0 < row["jsd_targeted,none"] < 5e-4
    assert f"<b>{row['jsd_targeted,none']:.1e}".replace("e-", "e−") in page
    assert f"<span>{len(CONDITIONS)} conditions</span>" in page
    # Answers of all conditions together are no repeatability, and no flip rate either.
    assert '<span title="differs between conditions">' in page and "nstability" not in page
    assert "all of its conditions together: original, edited, reworded." in page


def test_missing_samples_are_said(tmp_path: Path) -> None:
    from tests.result_folders import write_results

    write_results(tmp_path, "m", {"acc": [0, 1, 1]}, samples=False)
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 0
    assert "--log_samples" in (tmp_path / "r.html").read_text()
    assert main(["report", str(tmp_path), "--tasks", "x", "-o", "r.html"]) == 2
    assert main(["report", str(tmp_path / "none"), "-o", "r.html"]) == 2


# One file that needs nothing -------------------------------------------------------------------


def test_page_holds_no_script_and_no_address(page: Path) -> None:
    parsed = read(page)
    assert not {"script", "img", "link", "iframe", "template", "object"} & set(parsed.tags)
    assert all(one.startswith(("#", "data:text/csv;")) for one in parsed.addresses)
    assert not re.search(r"url\((?!#)|@import", page.read_text())
    assert "default-src 'none'" in page.read_text()
    ids = re.findall(r'\bid="([^"]+)"', page.read_text())
    assert len(ids) == len(set(ids))


def write_large(folder: Path, items: int, runs: int, words: int) -> Path:
    """Samples of long answers, no two alike, as a chatty model gives them."""
    draw = np.random.default_rng(1)
    vocabulary = np.array(["".join(draw.choice(list("abcdefghij"), 6)) for _ in range(3000)])
    place = folder / "m"
    place.mkdir(parents=True)
    with (place / "samples_big_2026.jsonl").open("w") as file:
        for i in range(items):
            base = draw.choice(vocabulary, words)
            texts = []
            for _ in range(runs):
                text = base.copy()
                at = draw.integers(0, words, words // 4)
                text[at] = draw.choice(vocabulary, len(at))
                texts.append(" ".join(text))
            answers = [str(x) for x in draw.integers(0, 3, runs)]
            file.write(json.dumps({
                "doc_id": i, "doc": {"q": i}, "target": "0",
                "arguments": {"gen_args_0": {"arg_0": f"Question {i}", "arg_1": {}}},
                "resps": [texts], "filtered_resps": [texts], "filter": "none",
                "metrics": ["acc", "answer_agreement"], "acc": answers.count("0") / runs,
                "answer_agreement": 0.5,
                "lmrel": {"item": f"i{i}", "conditions": ["default"], "labels": ["0"], "runs": [
                    [{"seed": n, "tokens": words, "certainty": 0.8, "answer": answers[n]}
                     for n in range(runs)]
                ]},
            }) + "\n")  # fmt: skip
    content = {
        "results": {"big": {"alias": "big", "acc,none": 0.33, "acc_stderr,none": 0.01}},
        "configs": {"big": {"task": "big", "repeats": runs}}, "model_name": "m",
    }  # fmt: skip
    path = place / "results_2026.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large")
    write_large(root / "out", 500, 10, 300)
    assert main(["report", str(root / "out"), "-o", str(root / "large.html")]) == 0
    return root / "large.html"


def test_500_items_of_10_long_runs_stay_below_5_mb(large: Path) -> None:
    assert large.stat().st_size < 5_000_000
    text = large.read_text()
    assert text.count('<details class="item">') == 500
    assert text.count("more characters in the samples file") > 1000


# In a browser ----------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("browser"))
    try:
        yield found
    finally:
        found.close()


def screenshot(browser: Browser) -> np.ndarray:
    """What is seen, shape (height, width, channels)."""
    raw = base64.b64decode(browser._call("GET", f"{browser._session}/screenshot", None))
    import matplotlib.image

    return np.asarray(matplotlib.image.imread(io.BytesIO(raw)))[..., :3]


def emulate(browser: Browser, command: str, **parameters: Any) -> Any:
    body = {"cmd": command, "params": parameters}
    return browser._call("POST", f"{browser._session}/goog/cdp/execute", body)


@needs_browser
def test_hostile_output_stays_text(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("return document.title") == "Reliability report"
    assert browser.run("return document.querySelector('#owned, main img, main script')") is None
    shown = browser.run(
        "return [...document.querySelectorAll('section:last-of-type details pre')]"
        ".map(x => x.textContent).join('\\n~~\\n')"
    ) + browser.run("return document.body.textContent")
    for text in HOSTILE:
        if "surrogate" not in text:
            assert visible(text) in shown
    assert "lone \ufffd \ufffd" in shown
    depth = browser.run(
        "return Math.max(...[...document.querySelectorAll('details.item')]"
        ".map(x => x.parentElement.tagName == 'SECTION' ? 1 : 9))"
    )
    assert depth == 1  # no closing tag of a model's text took effect


@needs_browser
def test_light_dark_print_and_expanding(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page)
    emulate(browser, "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "light"}])  # fmt: skip
    light = screenshot(browser)
    emulate(browser, "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark"}])  # fmt: skip
    dark = screenshot(browser)
    # Mostly paper: bright in one, dark in the other, with ink on both.
    assert np.median(light) > 0.95 and light.min() < 0.35
    assert np.median(dark) < 0.2 and dark.max() > 0.7
    ink = browser.run("return getComputedStyle(document.querySelector('figure svg text')).fill")
    assert ink == "rgb(230, 231, 234)"
    printed = emulate(browser, "Page.printToPDF", printBackground=True)["data"]
    pdf = base64.b64decode(printed)
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    emulate(browser, "Emulation.setEmulatedMedia", media="print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") in (
        "rgb(255, 255, 255)",
    )
    emulate(browser, "Emulation.setEmulatedMedia", media="")
    browser.run("document.querySelector('details.item').open = true")
    pieces = browser.run(
        "let d = document.querySelector('details.item');"
        "return [d.querySelectorAll('mark').length, d.querySelector('pre').offsetHeight]"
    )
    assert pieces[0] > 0 and pieces[1] > 0


@needs_browser
def test_nothing_is_wider_than_a_phone(browser: Browser, page: Path) -> None:
    emulate(browser, "Emulation.setDeviceMetricsOverride", width=390, height=800,
            deviceScaleFactor=1, mobile=True)  # fmt: skip
    try:
        browser.open(page)
        assert browser.run("return document.documentElement.scrollWidth") <= 390
    finally:
        emulate(browser, "Emulation.clearDeviceMetricsOverride")


@needs_browser
def test_a_large_page_opens_within_2_seconds(browser: Browser, large: Path) -> None:
    """By the browser's own clock; the best of several, since other work shares the processor."""
    seconds = []
    for _ in range(8):
        browser.open(large)
        seconds.append(browser.run(
            "return performance.getEntriesByType('navigation')[0].loadEventEnd"
        ) / 1000)  # fmt: skip
        if seconds[-1] < 2:
            break
        time.sleep(2)
    assert 0 < min(seconds) < 2


@needs_browser
def test_data_can_be_downloaded(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.querySelector('a[download]').click()")
    end = time.monotonic() + 20
    while not (files := list(browser.downloads.glob("*.csv"))):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert files[0].read_text().startswith("metric,filter,value")


def test_shares_in_one_go_are_those_of_the_metrics() -> None:
    from lmrel_tasks.measures import METRICS
    from lmrel_tasks.metrics.item import Condition, Item
    from lmrel_tasks.reporting.columns import Measures

    draw = np.random.default_rng(5)
    items = []
    for n in range(40):
        cells = []
        for name in "xyz":
            runs = int(draw.integers(0 if n % 4 == 0 else 1, 6))
            answers = tuple(draw.choice(["a", "b", ""], runs))
            certainty = np.where(draw.random(runs) < 0.1, np.nan, draw.random(runs) + n / 40)
            cells.append(Condition(name, texts=answers, answers=answers, certainty=certainty))
        items.append(Item(f"k{n}", tuple(cells), labels=("a",), has_label=n % 9 > 0))
    measures = Measures()
    for one in items:
        measures.add(one)
    found = measures.shares()
    assert set(found) == {"certainty", "correctness"}
    for measure, parts in found.items():
        assert set(parts) == {"item", "condition", "item_condition", "run"}
        for part, (share, error) in parts.items():
            metric = METRICS[f"var_{part}"].bind({"of": measure})
            values = [metric.per_item(one) for one in items]
            assert share == pytest.approx(metric.aggregate(values), rel=1e-12)
            assert error == pytest.approx(metric.standard_error(values), rel=1e-9)


def test_as_many_items_are_listed_as_fit(tmp_path: Path) -> None:
    from lmrel_tasks.reporting.page import render
    from tests.result_folders import write_results

    write_results(tmp_path, "m", {"acc": [0.0, 1.0] * 25})
    evaluations = find_evaluations([tmp_path])
    reports = [gather(one, "t") for one in evaluations]

    def listed(max_bytes: int) -> tuple[int, int]:
        text = render(evaluations, reports, "x", max_bytes)
        return text.count('<details class="item">'), len(text.encode())

    number, limit = listed(1)  # one item, whatever that takes
    found = [number]
    while found[-1] < 50:
        while (more := listed(limit))[0] == found[-1]:
            limit += 400
        assert more[1] <= limit
        found.append(more[0])
    # Of what does not fit 0.6, and again.
    assert found == [1, 2, 3, 6, 10, 18, 30, 50]


def test_ranks_in_one_go_are_those_of_single_items() -> None:
    from lmrel_tasks.metrics.item import Condition, Item
    from lmrel_tasks.metrics.reliability import item_score
    from lmrel_tasks.reporting.columns import Ranks

    draw = np.random.default_rng(3)
    items = [
        Item(
            key=f"k{n}", labels=("a",), has_label=n % 7 > 0,
            conditions=(Condition("x", answers=tuple(draw.choice(["a", "b", "c", ""], 6))),),
        )
        for n in range(200)
    ]  # fmt: skip
    ranks = Ranks()
    for one in items:
        ranks.add(one)
    assert len(ranks.waiting) > 20
    expected = [score for one in items if (score := item_score(one)) is not None]
    assert ranks.found().tolist() == expected
