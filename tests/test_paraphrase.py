"""Token-matched paraphrases: the checks, the rewrites and the selection."""

import re

import numpy as np
import pytest

from lmrel_tasks.filters.paraphrase import (
    accept,
    edit_distance,
    edit_fraction,
    lexical_paraphrase,
    negations_in,
    numbers_in,
    paraphrase_prompt,
    retry_prompt,
    select,
    targeted_terms,
)
from lmrel_tasks.filters.paraphrase.lexical import rewrites
from lmrel_tasks.filters.paraphrase.synonyms import synonyms_of
from lmrel_tasks.filters.perturb import gender_swap

_VOCABULARY: dict[str, int] = {}


def tokenize(text):
    words = re.findall(r"\w+|[^\w\s]", text)
    return [_VOCABULARY.setdefault(w, len(_VOCABULARY)) for w in words]


NOTE = (
    "Age: 61 years\nGender: Male\n\nSummary (2 weeks ago): 61-year-old male with newly diagnosed "
    "colon cancer (surgery completed 3 months ago). He is clinically and radiographically without "
    "evidence of recurrence.\n\nMessage: I've been experiencing severe fatigue for the past week. "
    "I don't sleep well, although I took two pills. It seems to be getting worse and I'm very "
    "worried. Should I see a doctor right away, or is it possible that this is not related? "
    "My wife and I would like to know if anyone has had the same problem. Thank you for your help!"
)


def reference_distance(a, b):
    """Levenshtein distance by the textbook recurrence."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0], table[0, :] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(
                table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y)
            )
    return int(table[-1, -1])


def test_edit_distance_against_the_recurrence():
    rng = np.random.default_rng(0)
    for _ in range(50):
        a = rng.integers(0, 6, rng.integers(1, 20)).tolist()
        b = rng.integers(0, 6, rng.integers(0, 20)).tolist()
        assert edit_distance(a, b) == reference_distance(a, b)
        assert edit_fraction(a, b) == reference_distance(a, b) / len(a)
    with pytest.raises(ValueError, match="ids_a is empty"):
        edit_fraction([], [1])


def test_numbers():
    assert numbers_in("two pills, 2.5 mg at 10:30") == {"2": 1, "2.5": 1, "10:30": 1}
    assert numbers_in("forty-five days") == numbers_in("45 days")
    assert numbers_in("2 pills") != numbers_in("3 pills") != numbers_in("three pills and 3")
    assert numbers_in("one of us") == numbers_in("some of us") == {}
    assert numbers_in("1 pill") != numbers_in("no pill")
    assert numbers_in("twice a day") != numbers_in("a day")


def test_negations():
    assert negations_in("I don't, I do not, I dont and can’t; no, never, without, denies") == 8
    assert negations_in("I cannot sleep") == negations_in("I can't sleep") == 1
    assert negations_in("Note the knot, nothingness") == 0


def test_targeted_terms():
    terms = targeted_terms(NOTE, gender_swap(NOTE))
    assert terms == {"male", "female", "he", "she", "wife", "husband"}
    assert targeted_terms("the 45M", "a 45F") == {"45m", "45f"}


ORIGINAL = "I have felt a bit weak for 3 days and I do not want to eat, said the man to his wife."
TARGETED = (
    "I have felt a bit weak for 3 days and I do not want to eat, said the woman to her husband."
)


def check(candidate, **kwargs):
    return accept(ORIGINAL, candidate, TARGETED, tokenize, **kwargs)


def test_accepts_a_matched_paraphrase():
    good = ORIGINAL.replace("a bit", "a little").replace("want to", "wish to")
    result = check(good, cosine=lambda a, b: 0.97)
    assert result.ok and result.reasons == ()
    assert (result.edits, result.target_edits, result.cosine) == (2, 3, 0.97)
    assert result.fraction == 2 / len(tokenize(ORIGINAL))
    assert result.target_fraction == 3 / len(tokenize(ORIGINAL))


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (ORIGINAL, "changes no token"),
        (ORIGINAL.replace("weak", "feeble"), "too few token edits"),
        ("They said that nobody felt like eating for 3 days.", "too many token edits"),
        (
            ORIGINAL.replace("3 days", "4 days").replace("eat", "dine"),
            r"numbers changed \(-3, \+4\)",
        ),
        (ORIGINAL.replace("do not want", "just want"), r"negations changed \(from 1 to 0\)"),
        (ORIGINAL.replace("man", "boy"), r"words of the targeted edit changed \(-man\)"),
        (ORIGINAL.replace("weak", "woman"), r"words of the targeted edit changed \(\+woman\)"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("Here is the rewritten text: " + ORIGINAL, "comment about the rewriting"),
    ],
)
def test_rejects_with_the_reason(candidate, reason):
    result = check(candidate)
    assert not result.ok
    assert any(re.search(reason, r) for r in result.reasons)


def test_meaning_threshold_and_nan():
    good = ORIGINAL.replace("a bit", "a little").replace("want to", "wish to")
    assert not check(good, cosine=lambda a, b: 0.89).ok
    assert check(good, cosine=lambda a, b: 0.89, min_cosine=0.8).ok
    assert not check(good, cosine=lambda a, b: float("nan")).ok
    assert check(good).cosine is None


def test_tolerance_is_of_the_fraction_or_one_token():
    def edited(count, length, mark):
        return [mark] * count + list(range(length))[count:]

    def passes(count, length):
        texts = {"original": edited(0, length, -1), "targeted": edited(20, length, -1)}
        texts["candidate"] = edited(count, length, -2)
        # The names of the texts share no word, so only the counts can speak against them.
        result = accept("original", "candidate", "targeted", texts.get)
        return not [r for r in result.reasons if "token" in r]

    # 1,000 tokens, ± .005: 15 to 25 edits for a target of 20.
    assert [k for k in range(1, 40) if passes(k, 1000)] == list(range(15, 26))
    # 40 tokens: ± .005 is less than a token, so one token counts.
    assert [k for k in range(1, 40) if passes(k, 40)] == [19, 20, 21]


def test_targeted_edit_that_changes_nothing_is_never_matched():
    result = accept("some text", "any text", "some text", tokenize)
    assert not result.ok and "nothing to match" in result.reasons[0]
    with pytest.raises(ValueError, match="original has no tokens"):
        accept("", "a", "b", tokenize)
    with pytest.raises(ValueError, match="tolerance is -1"):
        accept("a", "b", "c", tokenize, tolerance=-1)


def test_select():
    near = ORIGINAL.replace("a bit", "a little").replace("want to", "wish to")
    exact = near.replace("felt", "been")
    wrong = exact.replace("3", "4")
    chosen = select([wrong, near, exact], ORIGINAL, TARGETED, tokenize)
    assert chosen.text == exact and chosen.reasons == () and len(chosen.checks) == 3
    assert chosen.check.edits == chosen.check.target_edits == 3
    # Equal distance: the higher cosine wins.
    other = ORIGINAL.replace("a bit", "a little").replace("felt", "been").replace("weak", "frail")
    cosine = lambda a, b: {exact: 0.95, other: 0.99}[b]
    assert select([exact, other], ORIGINAL, TARGETED, tokenize, cosine).text == other
    none = select([wrong, ORIGINAL], ORIGINAL, TARGETED, tokenize)
    assert none.text is None and len(none.reasons) == 2 and none.check is none.checks[0]
    assert select([], ORIGINAL, TARGETED, tokenize).reasons == ("there is no candidate",)


@pytest.mark.parametrize("target", [1, 2, 3, 4, 5, 6, 8, 10])
def test_lexical_hits_the_target(target):
    found = lexical_paraphrase(NOTE, tokenize, target_edits=target)
    assert found and NOTE not in found and len(set(found)) == len(found) <= 8
    distances = [abs(edit_distance(tokenize(NOTE), tokenize(c)) - target) for c in found]
    assert distances[0] == 0 and distances == sorted(distances)


@pytest.mark.parametrize("seed", range(5))
def test_lexical_paraphrases_are_accepted(seed):
    targeted = gender_swap(NOTE)
    found = lexical_paraphrase(
        NOTE,
        tokenize,
        target_edits=edit_distance(tokenize(NOTE), tokenize(targeted)),
        seed=seed,
        protected=targeted_terms(NOTE, targeted),
    )
    assert select(found, NOTE, targeted, tokenize).text is not None
    for candidate in found:
        assert numbers_in(candidate) == numbers_in(NOTE)
        assert negations_in(candidate) == negations_in(NOTE)
        assert candidate.count("\n") == NOTE.count("\n")
        assert candidate.startswith("Age: 61 years\nGender: Male\n\nSummary (2 weeks ago): 61")


def test_lexical_is_determined_by_the_seed():
    runs = [lexical_paraphrase(NOTE, tokenize, target_edits=4, seed=s) for s in (0, 0, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2] or runs[0] != runs[3]


def test_lexical_fraction_and_errors():
    length = len(tokenize(NOTE))
    by_fraction = lexical_paraphrase(NOTE, tokenize, target_fraction=4 / length)
    assert by_fraction == lexical_paraphrase(NOTE, tokenize, target_edits=4)
    with pytest.raises(ValueError, match="either target_edits or target_fraction"):
        lexical_paraphrase(NOTE, tokenize)
    with pytest.raises(ValueError, match="0 or more"):
        lexical_paraphrase(NOTE, tokenize, target_edits=-1)
    assert lexical_paraphrase("Xyz.", tokenize, target_edits=2) == []


def test_protected_words_stay():
    for candidate in lexical_paraphrase(
        NOTE, tokenize, target_edits=30, protected=["worried", "doctor", "anyone", "past"]
    ):
        for word in ("worried", "doctor", "anyone", "past"):
            assert word in candidate


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("He lost his keys.", "Indeed, he lost his keys."),
        ("Mrs. Ito lost her keys.", "In short, Mrs. Ito lost her keys."),
        ("John Smith lost his keys.", "Briefly, John Smith lost his keys."),
        ("I lost my keys.", "To begin with, I lost my keys."),
        ("She works. She rests.", "She works. Also, she rests."),
    ],
)
def test_a_sentence_may_open_with_a_marker(text, opened):
    found = [r for r in rewrites(text, openings=True) if r.kind == "opening"]
    assert opened in {text[: r.start] + r.text + text[r.end :] for r in found}
    assert all(r.kind != "opening" for r in rewrites(text))


@pytest.mark.parametrize(
    "text",
    [
        "Which one?\nA. Paris\nB. Rome",
        "No. 5 is alive.",
        "Keys were lost.",
        "Chest pain began.",
        "lost keys",
        "1999 was dry.",
        "",
        "HE LOST IT",
    ],
)
def test_what_may_be_a_name_or_no_sentence_takes_no_marker(text):
    assert not [r for r in rewrites(text, openings=True) if r.kind == "opening"]


@pytest.mark.parametrize(
    "text",
    [
        "He saw Dr. John Smith.", "He paid St. Louis. Then left.", "He took vit. A. The dose.",
        "It was a fruit, e.g. The apple.", "She lives in the U.S. She works.",
        "It weighs approx. The usual.",
    ],
)  # fmt: skip
def test_no_sentence_begins_behind_an_abbreviation(text):
    assert {r.start for r in rewrites(text, openings=True) if r.kind == "opening"} == {0}


def test_no_marker_on_a_sentence_that_leans_on_the_one_before():
    text = "She works. This helps. However, she rests. It rains. No one came."
    found = [r.start for r in rewrites(text, openings=True) if r.kind == "opening"]
    assert set(found) == {0}


# One sentence, one rewrite that must be among its rewrites.
OFFERED = [
    ("I've a cough.", "I have a cough."),
    ("It's been hard.", "It has been hard."),
    ("It's hard.", "It is hard."),
    ("I do not sleep.", "I don't sleep."),
    ("I won't go.", "I will not go."),
    ("For the past week I slept.", "For the last week I slept."),
    ("A sickness began.", "An illness began."),
    ("My physicians agree.", "My doctors agree."),
    ("I frequently cough.", "I often cough."),
    ("He bought it.", "He purchased it."),
    ("He is hiding it.", "He is concealing it."),
    ("I have nausea and vomiting.", "I have vomiting and nausea."),
    ("When I eat, my stomach hurts.", "My stomach hurts when I eat."),
    ("At night, my leg hurts.", "My leg hurts at night."),
    ("I think I am ill.", "I think that I am ill."),
    ("Yesterday I slept.", "Yesterday, I slept."),
    ("It is HUGE but I'm not concerned.", "It is HUGE but I'm not worried."),
]


@pytest.mark.parametrize(("text", "wanted"), OFFERED)
def test_offered(text, wanted):
    offered = {
        candidate
        for target in range(1, 12)
        for seed in range(3)
        for candidate in lexical_paraphrase(text, tokenize, target_edits=target, seed=seed)
    }
    assert wanted in offered


# What would be wrong English or another meaning, each with the text that must not come out.
NEVER = [
    ("Don't I need it?", "Do not I need it?"),
    ("I used to run.", "I utilized to run."),
    ("Dr. Smith is a Doctor Who fan.", "Physician Who"),
    ("I know what it is like.", "what it's like"),
    ("Yes, I am.", "I'm."),
    ("The big-endian order", "large-endian"),
    ("It happened because of you.", "since of you"),
    ("She has past medical history of gout.", "last medical history"),
    ("I have severe pain and itching.", "severe itching and pain"),
    ("Rest and relaxation helped.", "relaxation and rest"),
    ("See `big` or http://big.com/big", "large"),
    ("Doctor: big", "Physician:"),
    ("It has disappeared.", "went"),
    ("It will become worse.", "gotten"),
    ("I have recently started to cough.", "began"),
    ("I worry about pain or anything.", "anything or pain"),
    ("It is hard, round, and it hurts.", "round and it"),
    ("My May appointment, in May", "might"),
    ("I took more than 2 pills.", "over 2 pills"),
]


@pytest.mark.parametrize(("text", "never"), NEVER)
def test_never_offered(text, never):
    for rewrite in rewrites(text):
        assert never not in text[: rewrite.start] + rewrite.text + text[rewrite.end :]


def test_synonyms_keep_the_inflection():
    assert "purchasing" in synonyms_of("buying")
    assert "bought" in synonyms_of("purchased")
    assert "infants" not in synonyms_of("babies")
    assert "babies" in synonyms_of("infants")
    assert synonyms_of("chest") == ()


def test_prompts():
    first = paraphrase_prompt(NOTE, 3, keep=["male", "he"])
    assert NOTE in first and "about 3 words" in first and "he, male" in first
    assert "1 word " in paraphrase_prompt(NOTE, 1)
    with pytest.raises(ValueError, match="target_edits is 0"):
        paraphrase_prompt(NOTE, 0)
    last = ORIGINAL.replace("3 days", "4 days")
    failed = check(last)
    retry = retry_prompt(ORIGINAL, last, failed)
    assert ORIGINAL in retry and last in retry
    assert all(reason in retry for reason in failed.reasons)
    assert "change about 2 words more" in retry
    good = check(ORIGINAL.replace("a bit", "a little").replace("want to", "wish to"))
    with pytest.raises(ValueError, match="needs no retry"):
        retry_prompt(ORIGINAL, last, good)
