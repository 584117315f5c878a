"""Judgements as JUnit XML, which continuous integration shows next to its tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from lmrel_tasks.gating import Judgement

# Characters that XML 1.0 cannot hold, escaped or not.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(judgements: Sequence[Judgement], path: str | Path) -> None:
    """Write one test suite per model and one test case per condition."""
    root = ElementTree.Element("testsuites", {"name": "lmrel gate", **_counts(judgements)})
    for model in dict.fromkeys(one.model for one in judgements):
        theirs = [one for one in judgements if one.model == model]
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": _clean(model), **_counts(theirs)}
        )
        for one in theirs:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_clean(one.task),
                name=_clean(f"{one.metric} {one.condition}"), time="0",
            )  # fmt: skip
            if one.status != "pass":
                tag = "failure" if one.status == "fail" else "error"
                found = ElementTree.SubElement(case, tag, message=_clean(one.reason))
                found.text = _clean(f"{one.model}, {one.task}, {one.metric}: {one.reason}")
    ElementTree.indent(root)
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(place, encoding="utf-8", xml_declaration=True)


def _counts(judgements: Sequence[Judgement]) -> dict[str, str]:
    counted = [one.status for one in judgements]
    return {
        "tests": str(len(counted)), "failures": str(counted.count("fail")),
        "errors": str(counted.count("error")), "skipped": "0", "time": "0",
    }  # fmt: skip


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
