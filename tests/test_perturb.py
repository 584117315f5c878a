"""Perturbations of text: gender, age and template slots."""

import json
from pathlib import Path

import pytest

from lmrel_tasks.filters.perturb import (
    PERTURBATIONS,
    age_plus,
    fill_slots,
    gender_bound_terms,
    gender_remove,
    gender_swap,
    get_perturbation,
    perturb_gender_remove,
    perturb_gender_swap,
    slot_fill,
    slot_grid,
)
from lmrel_tasks.filters.perturb.age import age_mentions
from lmrel_tasks.filters.perturb.lexicon import first_names, gendered_words

SENTENCES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "gender_sentences.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def test_enough_sentences():
    assert len({s["text"] for s in SENTENCES}) >= 60


@pytest.mark.parametrize("case", SENTENCES, ids=lambda c: c["text"][:40])
def test_swap(case):
    result = perturb_gender_swap(case["text"])
    assert result.text == case["swapped"]
    assert result.direction == case["direction"]
    assert result.edits > 0 and result.applicable


@pytest.mark.parametrize("case", SENTENCES, ids=lambda c: c["text"][:40])
def test_swapping_back_restores_the_text(case):
    restored = gender_swap(case["swapped"])
    # The exceptions have a word with several partners: Mrs, Miss and ma'am come back as Ms, madam.
    assert (restored == case["text"]) == case.get("round_trip", True)


@pytest.mark.parametrize(
    "text",
    [
        "The patient has asthma and takes it seriously.",
        "See `her` at https://he.org/she or mail him@her.com",
        "Dose: 5 mg; temp 101F; walked 50m; a 5M grant; 0.5 M NaCl; 120M people",
        "The MS clinic did an MR scan. I miss walking.",
        "The manager, a human being, mentions mandatory fathoms.",
        "my_wife.his = get(she_id)",
        "",
    ],
)
def test_swap_not_applicable(text):
    result = perturb_gender_swap(text)
    assert (result.text, result.direction, result.edits) == (text, 0, 0)
    assert not result.applicable


def test_patient_decides_the_direction():
    # The patient's mark outranks pronouns and kin of the other sex.
    assert perturb_gender_swap("45M; his wife says she worries.").direction == 1
    assert perturb_gender_swap("Age 45, female. Her husband says he worries.").direction == -1
    assert perturb_gender_swap("His wife came.").direction == 1
    assert perturb_gender_swap("(25F) and (27M)").direction == 0


def test_word_lists_are_consistent():
    names = first_names()
    for name, entry in names.items():
        assert names[entry.partner].partner == name
        assert names[entry.partner].sign == -entry.sign
    for word, entry in gendered_words().items():
        back = gendered_words().get(entry.partner)
        assert word == word.lower()
        assert back is None or back.sign == -entry.sign


REMOVALS = [
    ("She walks to her car and drives it home.", "They walk to their car and drive it home."),
    ("He is ill, so call him.", "They are ill, so call them."),
    ("She has lost hers.", "They have lost theirs."),
    ("He's been ill and she’s tired.", "They've been ill and they’re tired."),
    ("She's developed a rash.", "They've developed a rash."),
    ("He'll say he'd go.", "They'll say they'd go."),
    ("Is she ill? Does he smoke?", "Are they ill? Do they smoke?"),
    ("Why isn't she here?", "Why aren't they here?"),
    ("She doesn't know if he wasn't well.", "They don't know if they weren't well."),
    (
        "He never smokes, rarely drinks and has no pets.",
        "They never smoke, rarely drink and have no pets.",
    ),
    ("She says it hurts and her son worries.", "They say it hurts and their child worries."),
    ("She works as a cook and takes aspirin.", "They work as a cook and take aspirin."),
    ("She took pills and felt well.", "They took pills and felt well."),
    ("HE HAS PAIN.", "THEY HAVE PAIN."),
    ("She hurt herself.", "They hurt themselves."),
    ("If he or she calls, ask for his or her name.", "If they call, ask for their name."),
    ("The woman lives with a man.", "The person lives with a person."),
    ("An actress met a waitress.", "A performer met a server."),
    ("My uncle is an heir.", "My relative is an heir."),
    ("Mr. Okafor and Mrs. Lopez left.", "Okafor and Lopez left."),
    ("Dear Sir, thank you.", "Dear Sir or Madam, thank you."),
    ("Dear Sir or Madam, my leg hurts.", "Dear Sir or Madam, my leg hurts."),
    ("Thank you, ma'am.", "Thank you."),
    ("45M with pain", "45 with pain"),
    ("I (32F) cough.", "I (32) cough."),
    ("I 26(M) cough.", "I 26 cough."),
    ("32 y/o F, no allergies", "32 y/o, no allergies"),
    ("58 yo WF with COPD", "58 yo white patient with COPD"),
    ("He is a 24M.", "They are a 24-year-old."),
    ("Gender: Female\nAge: 57", "Gender: not stated\nAge: 57"),
    ("Sex: M", "Sex: not stated"),
    ("a 45-year-old male patient", "a 45-year-old patient"),
    ("a 45-year-old male with asthma", "a 45-year-old person with asthma"),
    ("I am in my 30s, male, no medication.", "I am in my 30s, no medication."),
    ("Her husband's cough is back.", "Their spouse's cough is back."),
    ("John saw Mary; John left.", "Alex saw Jordan; Alex left."),
    ("`she` is code, she is not.", "`she` is code, they are not."),
]


@pytest.mark.parametrize(("text", "neutral"), REMOVALS, ids=[r[0][:40] for r in REMOVALS])
def test_remove(text, neutral):
    assert gender_remove(text) == neutral


@pytest.mark.parametrize("case", SENTENCES, ids=lambda c: c["text"][:40])
def test_removal_leaves_nothing_to_swap(case):
    neutral = gender_remove(case["text"])
    left = perturb_gender_swap(neutral)
    assert left.edits == 0 or "Sir or Madam" in neutral
    # Removing the gender of the swapped text gives the same text but for neutral names and titles.
    assert gender_remove(case["swapped"]) == neutral


def test_remove_with_patient():
    assert gender_remove("The woman slept.", person="patient") == "The patient slept."
    assert perturb_gender_remove("The woman slept.").direction == 0


def test_bound_terms_are_reported_and_kept():
    text = "She is pregnant, her periods stopped; his prostate and PSA were checked."
    assert gender_bound_terms(text) == ("pregnant", "her periods", "prostate", "psa")
    assert "pregnant" in gender_swap(text) and "prostate" in gender_swap(text)
    assert gender_bound_terms("He has periods of dizziness and a cervical spine injury.") == ()


AGES = [
    ("A 45-year-old man", "A 46-year-old man"),
    ("45 yo, 45yo, 45 y/o, 45 y.o.", "46 yo, 46yo, 46 y/o, 46 y.o."),
    ("aged 45; Age: 45 years; age 45", "aged 46; Age: 46 years; age 46"),
    ("Forty-five-year-old, is forty five years old", "Forty-six-year-old, is forty-six years old"),
    ("45M here. I am 45.", "46M here. I am 46."),
    ("(45F) turned 45.", "(46F) turned 46."),
    (
        "She is 45 and tired of 45 mg for 45 minutes.",
        "She is 46 and tired of 45 mg for 45 minutes.",
    ),
    ("A 45-year-old with a 12-year-old son", "A 46-year-old with a 12-year-old son"),
    ("at 45 years of age", "at 46 years of age"),
    ("a 79-year-old", "an 80-year-old"),
    ("an 18 year old", "a 19 year old"),
    ("a 10-year-old", "an 11-year-old"),
    ("A forty-nine year old", "A fifty year old"),
    ("age 99, 99yo", "age 100, 100yo"),
]


@pytest.mark.parametrize(("text", "older"), AGES)
def test_age_plus_one(text, older):
    result = age_plus(text, 1)
    assert result.text == older
    assert result.direction == 1
    assert age_plus(older, -1).direction == -1


@pytest.mark.parametrize(
    "text",
    [
        "for 45 minutes, 45 mg twice, 45%",
        "on 4/5/45 and in 1945, at 10:45",
        "a 45-year history; within 45 years; stage 45",
        "I am 45 minutes late; he is 45 kg",
        "an 8-month-old; age: 8 months",
        "ages 45-50",
        "https://x.org/45-year-old",
    ],
)
def test_age_not_applicable(text):
    assert age_plus(text, 1) == age_plus(text, 5)
    assert age_plus(text, 1).text == text and not age_plus(text, 1).applicable


def test_age_chosen_and_limits():
    text = "45M, his 12-year-old son"
    assert age_plus(text, 3, age=12).text == "45M, his 15-year-old son"
    assert age_plus(text, 3, age=50).edits == 0
    assert [m.age for m in age_mentions(text)] == [45, 12]
    with pytest.raises(ValueError, match="n is 0"):
        age_plus(text, 0)
    with pytest.raises(ValueError, match="must be 0 to 120"):
        age_plus(text, 100)


@pytest.mark.parametrize("age", range(1, 120))
def test_age_shift_is_undone_by_the_opposite_shift(age):
    for text in (f"Seen: a {age}-year-old", f"Age: {age}"):
        there = age_plus(text, 1)
        assert age_mentions(there.text)[0].age == age + 1
        back = age_plus(there.text, -1).text
        assert age_mentions(back)[0].age == age


TEMPLATE = "Patient D is a [age]-year-old [race] [gender]. [subject] rubs [possessive] knee."


def test_fill_slots():
    filled = fill_slots(TEMPLATE, race="Asian", gender="woman", age=80)
    assert filled == "Patient D is an 80-year-old Asian woman. She rubs her knee."
    assert fill_slots("A [race] [gender].", race="", gender="man") == "A man."
    assert fill_slots("An [race] [gender].", race="Black", gender="man") == "A Black man."
    assert fill_slots("[SUBJECT] hit [reflexive]; ask [object].", gender="male") == (
        "HE hit himself; ask him."
    )
    assert fill_slots("[title] [name]'s", name="Lopez", gender="female") == "Ms. Lopez's"


def test_slot_errors():
    with pytest.raises(ValueError, match=r"unknown slot \[rase\].*known slots: race"):
        fill_slots("A [rase] man")
    with pytest.raises(ValueError, match=r"slot \[race\] needs race="):
        fill_slots("A [race] man")
    with pytest.raises(ValueError, match=r"slot \[subject\] needs gender="):
        fill_slots("[subject] sat")
    with pytest.raises(ValueError, match="gender 'robot' is unknown"):
        fill_slots("[subject] sat", gender="robot")


def test_slot_grid_and_directions():
    grid = slot_grid(TEMPLATE, races=["Black", "White"], genders=["man", "woman"], ages=[50])
    assert [(f.race, f.gender) for f in grid] == [
        ("Black", "man"),
        ("Black", "woman"),
        ("White", "man"),
        ("White", "woman"),
    ]
    assert len({f.text for f in grid}) == 4
    kwargs = {"race": "White", "age": 50}
    assert slot_fill(TEMPLATE, gender="woman", **kwargs).direction == 1
    assert slot_fill(TEMPLATE, gender="man", **kwargs).direction == 0
    assert slot_fill(TEMPLATE, gender="man", reference_gender="woman", **kwargs).direction == -1
    assert slot_fill(TEMPLATE, gender="man", **kwargs).edits == 5
    assert not slot_fill("no slot", race="Black").applicable


def test_registry():
    assert set(PERTURBATIONS) == {"gender_swap", "gender_remove", "age_plus", "slot_fill"}
    assert get_perturbation("age_plus", n=2)("Age: 7").text == "Age: 9"
    assert get_perturbation("gender_swap")("He ran.").text == "She ran."
    with pytest.raises(ValueError, match="unknown perturbation 'gender'; known: age_plus, gender_"):
        get_perturbation("gender")
    with pytest.raises(ValueError, match="takes no 'years'; arguments: n, age"):
        get_perturbation("age_plus", years=2)
