"""Canonical answers: the contract, a table of cases for each kind, properties, hostile input."""

from __future__ import annotations

import json
import time
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmrel_tasks.filters.canonical import REFUSAL, canonical, canonical_all, is_none_of_these
from lmrel_tasks.filters.canonical import mcq as mcq_module
from lmrel_tasks.filters.canonical import numeric as numeric_module
from lmrel_tasks.filters.canonical import text as text_module

# The kinds tested here; kinds for one benchmark have tests of their own.
KINDS = ("numeric", "mcq", "text", "code", "label")
DATA = Path(__file__).parent / "data"


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


CONTRACT = rows("answers.jsonl")
CASES = rows("canonical_cases.jsonl")
HOSTILE = json.loads((DATA / "canonical_hostile.json").read_text("utf-8"))


def name(row: dict) -> str:
    return f"{row['kind']}-{row['raw'][:24]!a}"


@pytest.mark.parametrize("row", CONTRACT, ids=name)
def test_contract(row):
    assert canonical(row["raw"], row["kind"], row.get("choices")) == row["answer"]


@pytest.mark.parametrize("row", CASES, ids=name)
def test_case(row):
    assert canonical(row["raw"], row["kind"], row.get("choices")) == row["answer"]


@pytest.mark.parametrize("form", ["{}", "{}.", "Answer: {}", "The answer is {}.", "**{}**"])
def test_an_answer_in_the_words_of_an_option_is_that_option(form):
    files = sorted((DATA / "hub" / "cais" / "mmlu").rglob("*.jsonl"))
    items = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    assert len(items) > 50
    for choices in (item["choices"] for item in items):
        for option in set(choices) if len(set(choices)) == len(choices) else ():
            letter = "ABCD"[choices.index(option)]
            assert canonical(form.format(option.rstrip(".")), "mcq", choices) == letter


def test_every_kind_has_a_table():
    least = {"numeric": 60, "mcq": 50, "text": 25, "code": 20, "label": 20}
    counts = Counter(row["kind"] for row in CASES)
    assert all(counts[kind] >= count for kind, count in least.items())


# Long numbers: exact, and neither slow nor stopped by the interpreter's limit on digits.


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ("9" * 5000, "9" * 5000),
        ("0" * 5000 + "7", "7"),
        ("1e400", "1" + "0" * 400),
        ("0." + "0" * 300 + "1", "0." + "0" * 300 + "1"),
        ("1e999999999", "1e999999999"),
        ("The answer is 1e-999999999.", "1e-999999999"),
        ("1" * 3000 + "/3", ""),
        ("1e" + "9" * 60000, ""),
        ("9^9^9^9", ""),
        ("10^" + "9" * 60000, ""),
        ("\\frac{" + "1" * 1500 + "}{3}", ""),
    ],
    ids=lambda text: text[:20],
)
def test_long_numbers(raw, answer):
    assert canonical(raw, "numeric") == answer


@pytest.mark.parametrize("nested", ["(" * 5000 + "1" + ")" * 5000, "-" * 9000 + "x", "x\x00y"])
def test_code_that_cannot_be_parsed(nested):
    assert canonical(nested, "code") == ""


def test_code_with_integer_beyond_the_digit_limit():
    assert canonical("0x" + "f" * 20000, "code") == ""


# Properties.

CHOICES = ["Yes", "No", "a dog", "None of these", "3"]
FRAGMENTS = st.sampled_from(HOSTILE["fragments"])
ANY_TEXT = st.one_of(
    st.text(max_size=40),
    st.lists(FRAGMENTS, max_size=9).map("".join),
    st.text(alphabet="0123456789.,' /-+eE^*$%½=()x", max_size=20),
)


@settings(
    max_examples=1500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(ANY_TEXT, st.sampled_from([*KINDS, "diagnosis"]), st.booleans())
def test_canonical_of_canonical_is_itself(raw, kind, with_choices):
    choices = CHOICES if with_choices or kind == "label" else None
    answer = canonical(raw, kind, choices)
    assert canonical(answer, kind, choices) == answer


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.sampled_from([0, 1, 2]))
def test_decimals_keep_their_value(value, shape):
    raw = (f"{value}", f"The answer is {value:f}.", f"\\boxed{{{value:f}}}")[shape]
    assert Decimal(canonical(raw, "numeric")) == value


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(-(10**30), 10**30), st.integers(1, 10**12))
def test_fractions_keep_their_value(top, bottom):
    plain = canonical(f"{top}/{bottom}", "numeric")
    assert Fraction(plain) == Fraction(top, bottom)
    assert plain == canonical(f"$\\dfrac{{{top}}}{{{bottom}}}$", "numeric")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(1000, 10**15), st.sampled_from([",", "'", " ", "\u00a0", "\u202f", "’", "_"]))
def test_thousands_separators(value, separator):
    raw = f"{value:,}".replace(",", separator)
    assert canonical(raw, "numeric") == str(value)


WORDS = st.sampled_from(
    "apples km because since and or not wait hundred A B 3 e.g. of the, is . Paris i I".split()  # noqa: SIM905
)


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(
    st.sampled_from(["", "So ", "the an ", "I think the answer is ", "The answer is ", "#### "]),
    st.sampled_from(["", "-", "$", "(", "\\boxed{"]),
    st.sampled_from(["7", "0042", "1,234", "2.50", "B", "B)", "(A)", "A", "C.", "E. coli"]),
    st.sampled_from(["", ".", ")", "}", ",", "!"]),
    st.lists(WORDS, max_size=3),
)
def test_short_cuts_agree_with_the_full_reading(before, mark, core, after, words):
    raw = " ".join([f"{before}{mark}{core}{after}", *words])
    assert numeric_module.numeric(raw) == numeric_module.read(raw)
    assert text_module.text(raw) == text_module.read(raw)
    if len(raw) > 3:
        assert mcq_module.mcq(raw) == mcq_module.read(raw, None, mcq_module.LETTERS)


# Bounds are CPU seconds and generous: a quadratic reading takes minutes, a linear one well under a
# tenth of the bound on an idle machine.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", HOSTILE["units"], ids=ascii)
def test_hostile_input_of_16_kb(unit, kind):
    raw = (unit * 16384)[:16384]
    start = time.process_time()
    canonical(raw, kind, CHOICES)
    canonical(f"The answer is {raw}", kind, CHOICES)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "unit",
    ["\\boxed{", ",", "7", "(", " ", "answer is ", "one ", "```\n", "A or ", "x+"],
    ids=ascii,
)
def test_hostile_input_of_64_kb(unit, kind):
    raw = (unit * 65536)[:65536]
    start = time.process_time()
    canonical(raw, kind, CHOICES)
    assert time.process_time() - start < 4


def test_nested_boxes_are_fast():
    def cpu(size: int) -> float:
        raw = ("\\boxed{" * size)[:size]
        times = []
        for _ in range(3):
            start = time.process_time()
            canonical(raw, "numeric")
            times.append(time.process_time() - start)
        return min(times)

    assert cpu(65536) < 0.5
    assert cpu(65536) < 12 * max(cpu(16384), 1e-4)


# The interface.


def test_canonical_all_keeps_order_and_repeats():
    raws = ["42", "The answer is 7.", "42", "", "7"]
    assert canonical_all(raws, "numeric") == ["42", "7", "42", "", "7"]
    assert canonical_all(iter(["yes", "no"]), "label", ["No", "Yes"]) == ["Yes", "No"]
    assert canonical_all([], "text") == []


@pytest.mark.parametrize(
    ("raw", "kind", "choices", "error", "said"),
    [
        ("x", "words", None, ValueError, "words.*numeric, mcq, text"),
        (3, "numeric", None, TypeError, "raw is int"),
        (None, "text", None, TypeError, "raw is NoneType"),
        ("yes", "label", None, ValueError, "choices"),
        ("yes", "label", [], ValueError, "choices"),
        ("yes", "label", "yes", TypeError, "wrap it in a list"),
        ("A", "mcq", ["x", 3], TypeError, r"choices\[1\] is int"),
        ("A", "mcq", ["x"] * 27, ValueError, "27 options"),
    ],
)
def test_bad_arguments_are_named(raw, kind, choices, error, said):
    with pytest.raises(error, match=said):
        canonical(raw, kind, choices)


def test_canonical_all_rejects_what_is_no_text():
    with pytest.raises(TypeError, match="raw is list"):
        canonical_all([["42"]], "numeric")


@pytest.mark.parametrize(
    "raw", ["None of these", "none of the above.", "Neither", "No correct answer", "None"]
)
def test_none_of_these_is_recognised(raw):
    assert is_none_of_these(raw)


@pytest.mark.parametrize("raw", ["B", "Nonetheless", "none left", "No", ""])
def test_other_labels_are_not_none_of_these(raw):
    assert not is_none_of_these(raw)


def test_refusal_is_one_class_for_every_kind():
    raw = "I'm sorry, but I can't help with that."
    assert {canonical(raw, kind, CHOICES) for kind in KINDS} == {REFUSAL}
