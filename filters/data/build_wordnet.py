"""Build the WordNet subsets of this folder from an installed WordNet 3.0 database.

Usage::

    apt-get install wordnet-base                  # or unpack the package anywhere
    python build_wordnet.py /usr/share/wordnet    # the folder with data.noun, cntlist.rev, ...

Writes beside itself

``wordnet_pos.tsv``
    lemma, and how often WordNet's sense-tagged texts use it as noun, verb, adjective, adverb.
``wordnet_synonyms.tsv``
    part of speech, a lemma, and a lemma that may stand in its place. Only pairs listed in
    ``synonyms_reviewed.txt`` (read and judged by hand) are kept; ``--all`` prints every pair that
    passes the counts, for review.

A pair is kept when both words are single lower-case words, are tagged mostly with that part of
speech, and the shared synset is the first sense of both and carries most of both words' tags: so
a reader meets the same meaning whichever of the two stands in the text.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path

HERE = Path(__file__).parent
POS_OF_TYPE = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
POS_ORDER = ("noun", "verb", "adj", "adv")
MIN_TAGS = 2
SENSE_SHARE = 0.7
POS_SHARE = 0.7
PLAIN_WORD = re.compile(r"[a-z]{3,}")

HEADER = """\
# Derived from WordNet 3.0, Copyright 2006 by Princeton University. All rights reserved.
# Licence: LICENSE-WordNet in this folder. Built by build_wordnet.py; do not edit by hand.
"""


def sense_counts(folder: Path) -> dict[tuple[str, str], Counter[int]]:
    """Tag counts by sense number for each (lemma, part of speech), from ``cntlist.rev``."""
    counts: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for line in (folder / "cntlist.rev").read_text().splitlines():
        key, number, tags = line.split()
        lemma, rest = key.split("%")
        counts[lemma, POS_OF_TYPE[rest[0]]][int(number)] += int(tags)
    return counts


def synsets(folder: Path, pos: str) -> dict[str, list[str]]:
    """Words of each synset of ``data.<pos>`` by offset, syntactic markers removed."""
    found = {}
    for line in (folder / f"data.{pos}").read_text().splitlines():
        if line.startswith(" "):
            continue
        fields = line.split()
        size = int(fields[3], 16)
        found[fields[0]] = [re.sub(r"\(.*\)$", "", w) for w in fields[4 : 4 + 2 * size : 2]]
    return found


def first_senses(folder: Path, pos: str) -> dict[str, str]:
    """Offset of the first sense of each lemma, from ``index.<pos>``."""
    found = {}
    for line in (folder / f"index.{pos}").read_text().splitlines():
        if line.startswith(" "):
            continue
        fields = line.split()
        found[fields[0]] = fields[6 + int(fields[3])]
    return found


def dominant(lemma: str, pos: str, counts: dict[tuple[str, str], Counter[int]]) -> bool:
    senses = counts.get((lemma, pos), Counter())
    of_pos = senses.total()
    overall = sum(counts[lemma, p].total() for p in POS_ORDER if (lemma, p) in counts)
    return (
        senses[1] >= MIN_TAGS
        and senses[1] >= SENSE_SHARE * of_pos
        and of_pos >= POS_SHARE * overall
    )


def reviewed() -> set[tuple[str, str, str]]:
    """Accepted (part of speech, from, to) triples."""
    accepted = set()
    for line in (HERE / "synonyms_reviewed.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pos, left, way, right = line.split()
            accepted.add((pos, left, right))
            if way == "=":
                accepted.add((pos, right, left))
    return accepted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with WordNet's data.*, index.* files")
    parser.add_argument("--all", action="store_true", help="print every pair for review")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    counts = sense_counts(folder)

    lemmas = sorted({lemma for lemma, _ in counts if re.fullmatch(r"[a-z]{2,}", lemma)})
    rows = [
        "\t".join([lemma, *(str(counts.get((lemma, p), Counter()).total()) for p in POS_ORDER)])
        for lemma in lemmas
    ]
    (HERE / "wordnet_pos.tsv").write_text(
        HEADER + "# lemma\tnoun\tverb\tadj\tadv\n" + "\n".join(rows) + "\n"
    )

    pairs = set()
    for pos in POS_ORDER:
        first = first_senses(folder, pos)
        for offset, words in synsets(folder, pos).items():
            good = [
                w
                for w in words
                if PLAIN_WORD.fullmatch(w) and first.get(w) == offset and dominant(w, pos, counts)
            ]
            pairs |= {(pos, a, b) for a, b in permutations(good, 2)}
    if arguments.all:
        print("\n".join(" ".join(pair) for pair in sorted(pairs)))
    kept = sorted(pairs & reviewed())
    (HERE / "wordnet_synonyms.tsv").write_text(
        HEADER + "# pos\tlemma\tlemma\n" + "\n".join("\t".join(p) for p in kept) + "\n"
    )
    print(f"{len(rows)} lemmas, {len(kept)} of {len(pairs)} pairs")
    for pair in sorted(reviewed() - pairs):
        print("reviewed but not a dominant pair of WordNet:", *pair)


if __name__ == "__main__":
    main()
