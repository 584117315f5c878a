"""Which "her" is possessive and which "his" stands alone, by rules over the neighbouring words.

English leaves two questions open when a third person pronoun changes its gender: "her" is either
"his" (her arm) or "him" (saw her), and "his" is either "her" (his arm) or "hers" (it is his). Both
are decided from the words beside them with small closed word lists and dictionary parts of speech.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmrel_tasks.filters.perturb.pos import (
    base_form,
    can_be,
    is_base_verb,
    is_past,
    is_past_participle,
    main_tag,
    tag_weights,
)
from lmrel_tasks.filters.perturb.words import Token, word_set

# After an object pronoun; never inside a noun phrase that "her" opens.
_NOT_IN_NOUN_PHRASE = word_set(
    "a an the this that these those my your our their its his her some any every each another "
    "both all no not to in on at for with from by of about after before during into onto over "
    "under since until till through between without up out off down away as than like because "
    "when while if and or but so who whom which where why how what whether nor per via upon "
    "against toward towards among behind beside besides despite except near within along across "
    "around again too either neither now then there here yesterday today tonight tomorrow soon "
    "once twice is was are were be been am has had have do does did will would can could should "
    "may might must shall i you he she it we they me us them him myself yourself himself herself "
    "themselves itself very such just really even still ever never always sometimes often maybe "
    "perhaps please also instead anyway anymore though although unless enough something anything "
    "nothing everything everyone someone somewhere nowhere everywhere though immediately"
)
_QUANTIFIERS_AFTER = word_set(
    "more most less much well better worse best fast hard early late alone "
    "daily weekly nightly monthly hourly overnight indoors outside inside "
    "upstairs downstairs forward forth aside apart together"
)
_TIME = word_set(
    "week month year night time day morning afternoon evening monday tuesday wednesday "
    "thursday friday saturday sunday january february march april may june july august "
    "september october november december spring summer autumn fall winter visit"
)
_PREPOSITIONS = word_set(
    "to in on at for with from by of about after before during into onto over "
    "under since until through between without off as than like against toward "
    "towards near within along across around behind beside despite per"
)
_GIVE = word_set(
    "give gives gave given giving offer offers offered offering prescribe prescribes "
    "prescribed prescribing buy buys bought buying hand handed teach teaches taught "
    "feed fed feeding grant granted lend lent owe owed wish wished deny denied "
    "cause caused causing causes"
)
_TELL = word_set(
    "tell tells told telling ask asks asked asking show shows showed shown showing read"
)
_TELL_OBJECTS = word_set("lies stories questions things news jokes secrets everything nothing")
_CAUSATIVE = word_set(
    "make makes made making let lets letting help helps helped helping see sees saw "
    "seen seeing watch watches watched watching hear hears heard hearing feel felt notice "
    "noticed bid"
)
_KEEP = word_set(
    "keep keeps kept keeping find finds found finding leave leaves left leaving get got "
    "gets getting want wants wanted have has had having see sees saw seeing seen hear "
    "hears heard hearing watch watched watching catch caught call calls called make "
    "makes made making consider considered render rendered"
)
_CALL = word_set("call calls called calling name names named naming")
_MOVE = word_set(
    "call calls called calling phone phoned text texted bring brings brought bringing "
    "take takes took taken taking send sends sent sending get gets got getting want wants "
    "wanted put puts drive drives drove driving drove pay paid invite invited see saw "
    "seen seeing admit admitted transfer transferred move moved message messaged email "
    "emailed turn turned carry carried walk walked follow followed let lets have had "
    "push pushed rush rushed fly flew accompany accompanied escort escorted"
)
_OWNED = word_set(
    "own usual current previous first only recent former prior new old last next entire "
    "whole regular past present initial main other second third late little young "
    "left right upper lower medical"
)
_PEOPLE_AND_BODY = word_set(
    "mother father mom mum dad parents parent brother brothers sister sisters son sons daughter "
    "daughters husband wife spouse partner boyfriend girlfriend baby child children kids family "
    "friend friends doctor doctors physician nurse nurses therapist surgeon dentist psychiatrist "
    "oncologist boss teacher roommate neighbor neighbour caregiver caregivers grandmother "
    "grandfather aunt uncle niece nephew cousin dog cat team arm arms leg legs hand hands foot "
    "feet head face back neck eye eyes ear ears chest stomach skin hair knee knees wrist ankle "
    "shoulder shoulders hip hips lungs heart liver kidneys body mouth throat nose"
)
_AUXILIARIES = word_set(
    "is was are were has had have does do did will would can could should may "
    "might must shall isn wasn hasn doesn didn won wouldn can couldn shouldn"
)
_CLAUSE_ENDS = frozenset('.,;:!?)]}"”\n…—–')
_OPENERS = frozenset('"“‘([')


def _next(tokens: Sequence[Token], i: int) -> int | None:
    """Index of the token after ``i``, an opening quote or bracket skipped; None at an end."""
    j = i + 1
    if j < len(tokens) and tokens[j].text in _OPENERS:
        j += 1
    return j if j < len(tokens) and tokens[j].text not in _CLAUSE_ENDS else None


def _noun_phrase_end(tokens: Sequence[Token], i: int) -> int:
    """Index behind the run of adjectives and nouns that starts at ``i``."""
    j = i
    while j < len(tokens):
        word = tokens[j].lower
        if tokens[j].text == "-" or word == "'s":
            j += 1
            continue
        if not tokens[j].is_word or word in _NOT_IN_NOUN_PHRASE:
            break
        if j > i and main_tag(word) in ("VERB", "ADV") and main_tag(tokens[j - 1].lower) == "NOUN":
            break
        j += 1
    return j


def _opens_noun_phrase(tokens: Sequence[Token], j: int, least: float = 0.3) -> bool:
    """Whether a noun or a modifier of a following noun stands at ``j``."""
    word = tokens[j].lower
    if word in _NOT_IN_NOUN_PHRASE:
        return False
    if can_be(word, "NOUN", least):
        return True
    after = _next(tokens, j)
    return after is not None and tokens[after].is_word and _opens_noun_phrase(tokens, after, 0.1)


def _is_adjective(word: str) -> bool:
    return can_be(word, "ADJ", 0.3) or word.endswith("ed") or is_past_participle(word)


def _verb_after_causative(tokens: Sequence[Token], j: int, infinitive: bool) -> bool:
    """Whether the word at ``j`` is what "make/let/see her" makes her do or be."""
    word = tokens[j].lower
    weights = tag_weights(word)
    after = _next(tokens, j)
    noun_follows = after is not None and _opens_noun_phrase(tokens, after)
    verb_share = weights.get("VERB", 0)
    bare = infinitive and is_base_verb(word) and word not in _PEOPLE_AND_BODY
    if bare and verb_share > 0.25:
        # "heard her cough worsen" against "heard her cough": a verb behind makes it a noun.
        return after is None or not (
            weights.get("NOUN", 0) > 0.3 and main_tag(tokens[after].lower) == "VERB"
        )
    if word.endswith("ing") and verb_share > 0.3:
        return after is None or tokens[after].lower not in _AUXILIARIES
    return _is_adjective(word) and not can_be(word, "NOUN", 0.5) and not noun_follows


def _after_giving(tokens: Sequence[Token], j: int) -> bool:
    """Whether "her" is possessive in "gave her ..." with the noun phrase starting at ``j``."""
    end = _noun_phrase_end(tokens, j)
    words = {t.lower for t in tokens[j:end]}
    follows = tokens[end].lower if end < len(tokens) else "."
    second_object = follows in word_set("a an the some any this these two three her his my") or (
        follows[0].isdigit()
    )
    owned = tokens[j].lower in _OWNED - {"new", "other", "first", "second"}
    return bool(words & _PEOPLE_AND_BODY) or second_object or owned


def her_is_possessive(tokens: Sequence[Token], i: int) -> bool:
    """Whether the "her" at ``tokens[i]`` is a determiner ("his") and not an object ("him")."""
    j = _next(tokens, i)
    if j is None:
        return False
    word = tokens[j].lower
    before = tokens[i - 1].lower if i else "."
    if not tokens[j].is_word:
        return word[0].isdigit() and before not in _GIVE | _TELL
    if word == "own":
        return True
    after = tokens[j + 1].lower if j + 1 < len(tokens) else "."
    if word == "very":
        return after in ("own", "first", "last", "best")
    if word in _NOT_IN_NOUN_PHRASE:
        return False
    if word in ("last", "next", "first", "this") and after in _TIME - {"visit", "day"}:
        return before in _PREPOSITIONS
    if word == "back":
        moved = before in _MOVE or after in ("again", "home")
        return not moved or (
            after not in _NOT_IN_NOUN_PHRASE
            and main_tag(after) == "NOUN"
            and after not in _CLAUSE_ENDS
        )
    if word == "home" and before in _MOVE:
        return False
    if word in ("right", "straight"):
        return after not in _NOT_IN_NOUN_PHRASE | _CLAUSE_ENDS or after in _AUXILIARIES
    if word == "left":
        return after not in ("alone", "behind")
    if word == "one" and before in _GIVE | _TELL:
        return False
    if word in _OWNED:
        return before not in _GIVE or _after_giving(tokens, j)
    if word in _QUANTIFIERS_AFTER or main_tag(word) == "ADV":
        # "recently diagnosed cancer" is hers; "told her repeatedly" is she.
        if after == "-" or (j + 1 < len(tokens) and word in ("well", "early", "late", "daily")):
            return after == "-" or _opens_noun_phrase(tokens, j + 1)
        return (
            after not in _NOT_IN_NOUN_PHRASE
            and after[0].isalpha()
            and (_is_adjective(after) or word in _QUANTIFIERS_AFTER)
            and (j + 2 < len(tokens) and _opens_noun_phrase(tokens, j + 1))
        )
    if before in _CALL and tokens[j].text[0].isupper():
        return False
    if before in _CAUSATIVE | _KEEP and _verb_after_causative(tokens, j, before in _CAUSATIVE):
        return False
    earlier = tokens[i - 2].lower if i > 1 else "."
    # "was given her vaccine" is passive, "given her history" a preposition.
    if before in _GIVE and earlier in ("is", "was", "were", "are", "be", "been", "being"):
        return True
    if before == "given" and earlier not in ("has", "have", "had", "ve", "'ve"):
        return True
    if before in _GIVE:
        return _after_giving(tokens, j)
    return not (before in _TELL and word in _TELL_OBJECTS)


_COORDINATORS = frozenset(("or", "and", "/", "&"))
_PRONOUNS = frozenset(("he", "she", "him", "his", "her", "hers"))


def joined_pronoun(tokens: Sequence[Token], i: int, step: int) -> str | None:
    """Pronoun joined to ``tokens[i]`` by or, and, "/" on the side ``step`` (-1 or 1)."""
    joint, other = i + step, i + 2 * step
    if min(joint, other) >= 0 and max(joint, other) < len(tokens):
        word = tokens[other].lower
        if tokens[joint].lower in _COORDINATORS and word in _PRONOUNS:
            return word
    return None


def his_stands_alone(tokens: Sequence[Token], i: int) -> bool:
    """Whether the "his" at ``tokens[i]`` has no noun behind it ("it is his": "hers")."""
    j = _next(tokens, i)
    if j is None:
        return True
    word = tokens[j].lower
    if not tokens[j].is_word:
        return word in ("-", "/") or word == "'s"
    if word in ("own", "very", "other", "most", "more", "less"):
        return False
    if word in ("like", "near", "past", "over", "under", "down", "off", "out", "inside", "outside"):
        return not _opens_noun_phrase(tokens, j + 1) if j + 1 < len(tokens) else True
    if word in ("i", "will", "may", "can", "past") and j + 1 < len(tokens):
        return word in ("i",) or is_base_verb(tokens[j + 1].lower)
    if word in _NOT_IN_NOUN_PHRASE:
        return True
    # A finite verb cannot open a noun phrase: "a friend of his drove", "his hurts too".
    past = is_past(word) and not is_past_participle(word)
    return can_be(word, "VERB", 0.8) and (past or base_form(word) is not None)
