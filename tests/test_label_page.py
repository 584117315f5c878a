"""`lmrel label`: the page in a real browser, hostile answers, and the way back to labels."""

import json
import re
from collections import Counter

import pytest
from browser import CHROMIUM, DRIVER, Browser

from lmrel_tasks.cli import main
from lmrel_tasks.labelling import imported, label_page
from lmrel_tasks.repeats import Reading, Repeats, read_repeats

HOSTILE = [
    "<img src=x onerror=\"window.hacked='img'\">",
    "</script><script>window.hacked='script'</script>",
    "<!--<script>window.hacked='comment'",
    "<svg onload=window.hacked=1><b>bold</b>",
    "\u2028'; window.hacked = 1; //\u2029 \\u003c &lt;b&gt; ${1} {{DATA}} {{SCRIPT_HASH}}",
]
ITEMS = [
    {"id": HOSTILE[1], "question": HOSTILE[0] + "\nline two", "responses": [*HOSTILE, HOSTILE[0]]},
    {"id": "two", "question": "Capital of France?", "responses": ["Paris"] * 7 + ["Lyon"] * 2},
    {"id": "three", "responses": ["It is red.", "Blue", "I cannot help with that."]},
    {"id": "four", "question": "Nothing came back", "responses": ["", ""]},
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    runs = folder / "runs.jsonl"
    runs.write_text("".join(json.dumps(row) + "\n" for row in ITEMS), encoding="utf-8")
    path = folder / "page.html"
    assert main(["label", "export", str(runs), "--kind", "text", "-o", str(path)]) == 0
    return runs, path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium, page):
    chromium.open(page[1])
    chromium.run("localStorage.clear()")
    chromium.open(page[1])
    return chromium


def shown(browser):
    return browser.run(
        "return [...document.querySelectorAll('#answers .row')].map(row => "
        "[row.querySelector('.text').textContent, row.querySelector('input').checked])"
    )


def status(browser):
    return browser.run("return document.getElementById('status').textContent")


def test_hostile_texts_are_shown_as_they_are_and_do_nothing(browser):
    rows = [text for text, _ in shown(browser)]
    assert rows[-1] == "None of these"
    assert Counter(rows[:-1]) == Counter(text.strip() for text in HOSTILE)
    question = browser.run("return document.getElementById('question').textContent")
    assert question == HOSTILE[0] + "\nline two"
    assert browser.run("return document.images.length + document.scripts.length") == 2
    assert browser.run("return document.querySelectorAll('svg, b').length") == 0
    assert browser.run("return typeof window.hacked") == "undefined"


def test_policy_stops_scripts_even_if_markup_got_in(browser):
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', "
        '\'<img src=x onerror="window.hacked=1"><svg onload="window.hacked=2"></svg>\')'
    )
    browser.run("return new Promise(done => setTimeout(done, 500))")
    assert browser.run("return typeof window.hacked") == "undefined"


def test_page_loads_nothing(browser, page):
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    source = page[1].read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["']|url\(|@import|https?://""", source)


def test_frequencies_are_hidden(browser, page):
    browser.press("ArrowRight")
    assert {text for text, _ in shown(browser)[:-1]} == {"Paris", "Lyon"}
    data = json.loads(browser.run("return document.getElementById('data').textContent"))
    assert set(data["items"][1]) == {"id", "question", "answers"}
    assert set(data["items"][1]["answers"][0]) == {"answer", "shown", "full"}
    assert page[1].read_text(encoding="utf-8").count("Paris") == 1


def test_keyboard_progress_save_import_and_certify(browser, page, tmp_path, capsys):
    runs = page[0]
    assert status(browser) == "Item 1 of 4, 0 labelled"
    browser.press("1", "3", "1", "5")  # 1 is taken back
    first = [text for text, _ in shown(browser)]
    assert [on for _, on in shown(browser)] == [False, False, True, False, True, False]
    browser.press("Enter")
    paris = [text for text, _ in shown(browser)].index("Paris") + 1
    browser.press("0", str(paris), "ArrowRight")  # an answer replaces "none of these"
    assert status(browser) == "Item 3 of 4, 2 labelled"
    browser.press("2", "u")  # no label after all
    browser.press("7", "0")  # there is no seventh answer
    assert status(browser) == "Item 4 of 4, 3 labelled"
    browser.reload()
    assert status(browser) == "Item 4 of 4, 3 labelled"
    assert shown(browser) == [["None of these", True]]
    browser.press("ArrowLeft", "ArrowLeft")
    assert [text for text, on in shown(browser) if on] == ["Paris"]
    browser.press("s")
    saved = browser.downloaded()
    labels = tmp_path / "labels.jsonl"
    assert main(["label", "import", str(saved), "-o", str(labels)]) == 0
    found = {(row := json.loads(line))["id"]: row for line in labels.read_text().splitlines()}
    assert set(found) == {HOSTILE[1], "two", "four"}
    assert found["two"] == {"id": "two", "gold": ["paris"], "kind": "text"}
    assert found["four"]["gold"] == []
    (item,) = (one for one in read_repeats(runs, Reading(kind="text", gold=False, texts=True))
               if one.key == HOSTILE[1])  # fmt: skip
    marked = {item.texts[answer].strip() for answer in found[HOSTILE[1]]["gold"]}
    assert marked == {first[2], first[4]}
    out = tmp_path / "out"
    command = ["certify", str(runs), "--kind", "text", "--labels", str(labels)]
    assert main([*command, "--output", str(out)]) == 1
    (one,) = json.loads((out / "certificate.json").read_text())
    assert (one["items"], one["unlabelled"]) == (3, 1)
    assert one["coverage"]["capability_gap"]["successes"] == 1


def test_mouse_and_buttons(browser):
    browser.run("document.getElementById('next').click()")
    browser.run("document.querySelector('#answers input').click()")
    assert status(browser) == "Item 2 of 4, 1 labelled"
    browser.run("document.getElementById('clear').click()")
    assert status(browser) == "Item 2 of 4, 0 labelled"
    browser.press("Tab")
    browser.run("document.querySelector('#answers input').focus()")
    browser.press(" ")
    assert status(browser) == "Item 2 of 4, 1 labelled"


def test_order_of_answers_is_shuffled_by_seed_and_item():
    items = [Repeats(str(i), "", tuple("ABCD"), None) for i in range(400)]

    def orders(seed):
        text = label_page(items, title="t", kind="mcq", seed=seed)
        data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
        return [[one["answer"] for one in item["answers"]] for item in data["items"]]

    assert orders(1) == orders(1) != orders(2)
    first = Counter(order[0] for order in orders(1))
    assert all(60 < first[letter] < 140 for letter in "ABCD")  # 100 expected, sd 8.7


def test_one_page_per_calibration_set(page, tmp_path):
    runs = page[0]
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps(ITEMS[1]) + "\n", encoding="utf-8")
    out = tmp_path / "pages"
    assert main(["label", "export", str(runs), str(other), "--kind", "text", "-o", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["1_runs.html", "2_other.html"]


def saved_file(path, items, kind="mcq"):
    path.write_text(json.dumps({"lmrel_labels": 1, "kind": kind, "items": items}))
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"a": 1}', "not a file saved by the page"),
        ("{", "not valid JSON"),
        ([], "no item is labelled yet"),
        ([{"id": "a", "acceptable": [], "none": False}], "item 0: needs either"),
        ([{"id": "a", "acceptable": ["A"], "none": True}], "item 0: needs either"),
        ([{"id": "a", "acceptable": "A"}], "field acceptable"),
        ([{"id": 3, "acceptable": ["A"]}], "field id"),
        (["x"], "field id"),
    ],
)
def test_import_names_what_is_wrong(tmp_path, capsys, content, words):
    path = tmp_path / "saved.json"
    if isinstance(content, str):
        path.write_text(content)
    else:
        saved_file(path, content)
    assert main(["label", "import", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_two_people_must_agree(tmp_path):
    same = saved_file(tmp_path / "a.json", [{"id": "x", "acceptable": ["A", "B"], "none": False}])
    also = saved_file(tmp_path / "b.json", [{"id": "x", "acceptable": ["B", "A"], "none": False}])
    other = saved_file(tmp_path / "c.json", [{"id": "x", "acceptable": [], "none": True}])
    assert imported([same, also]) == [{"id": "x", "gold": ["A", "B"], "kind": "mcq"}]
    with pytest.raises(ValueError, match="settle it"):
        imported([same, other])
