"""Every command of the documentation, run in the order of its page with the demo model.

Commands are run in this process: it spares every one of them its imports. Two things differ from
a terminal: the demo model is its local copy, and the harness looks for stock tasks only in the
folders that the pages use.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import lm_eval.tasks
import pytest
from fakes import no_environment_report
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import TaskIndex

from lmrel_tasks.cli import COMMANDS, main
from lmrel_tasks.commands.path import task_folder

DOCS = Path(__file__).parent.parent / "docs"
DATA = Path(__file__).parent / "data" / "upstream"
HARNESS = Path(lm_eval.tasks.__file__).parent
# What the pages use of two folders with thousands of tasks.
FEW = {
    HARNESS: [HARNESS / "unscramble"],
    Path(task_folder()): [Path(task_folder()) / name for name in ("demo", "bias")],
}
DEMO_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"

# Of these, `bash` and `python` are run; without a language stands what a command prints.
LANGUAGES = {"bash", "python", "yaml", "json", "csv", ""}
PAGES = ["../README.md", *sorted(path.name for path in DOCS.glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, and the comment right before it."""

    language: str
    text: str
    note: str


def blocks(page: str) -> list[Block]:
    found = BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))
    return [Block(one["language"], one["text"], (one["note"] or "").strip()) for one in found]


def commands(block: Block) -> list[tuple[list[str], int]]:
    """Words of each command and the exit status that its comment announces."""
    lines = block.text.replace("\\\n", " ").replace(" && ", "\n").splitlines()
    found = []
    for line in lines:
        status = re.search(r"# exit status (\d)", line)
        words = shlex.split(line.replace("$(lmrel path)", task_folder()), comments=True)
        if words:
            found.append((words, int(status[1]) if status else 0))
    return found


def skipped(block: Block) -> str | None:
    match = re.fullmatch(r"not run: (.+)", block.note, re.S)
    return match[1] if match else None


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    # `lmrel run` names a store for the whole process if nobody has.
    monkeypatch.setenv("LMREL_STORE", str(tmp_path / "store.sqlite"))


@pytest.fixture(scope="session")
def workplace(tmp_path_factory, smollm_dir):
    """One store for all pages, so that what two pages sample alike is sampled once."""
    return tmp_path_factory.mktemp("docs"), str(smollm_dir)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of(page, workplace, tmp_path, monkeypatch):
    root, model = workplace
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LMREL_STORE", str(root / "store.sqlite"))
    for owner in DATA.iterdir():
        (tmp_path / owner.name).symlink_to(owner)
    _look_in_few_folders(monkeypatch)
    for block in blocks(page):
        if block.note.startswith("file: "):
            Path(block.note.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.language == "bash" and not skipped(block):
            for words, status in commands(block):
                given = [word.replace(DEMO_MODEL, model) for word in words]
                assert _run(given) == status, f"{page}: {shlex.join(words)}"
        elif block.language == "python" and not skipped(block):
            exec(compile(block.text, page, "exec"), {})


def _run(words: list[str]) -> int:
    variables, words = _split(words)
    before, manager = sys.argv, TaskManager.__init__
    with (
        patch.dict(os.environ, variables),
        no_environment_report(),
        contextlib.redirect_stdout(io.StringIO()) as shown,
    ):
        try:
            if words[0] == "lmrel":
                status = main(words[1:])
            elif words[:2] == ["lm_eval", "run"]:
                from lm_eval.__main__ import cli_evaluate

                sys.argv = words
                status = cli_evaluate() or 0
            else:
                raise AssertionError(
                    f"the test knows no command {words[0]}; mark it `not run: ...`"
                )
        except SystemExit as ended:
            status = int(ended.code or 0)
        finally:
            sys.argv = before
            TaskManager.__init__ = manager  # `lmrel run` changes it for its process
    if status:
        print(shown.getvalue())
    return status


def _split(words):
    """The variables set in front of a command, and the command."""
    count = next(at for at, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))
    return dict(word.split("=", 1) for word in words[:count]), words[count:]


def _look_in_few_folders(monkeypatch):
    stock = TaskIndex.build

    def build(paths, **options):
        return stock([one for path in paths for one in FEW.get(path, [path])], **options)

    monkeypatch.setattr(TaskIndex, "build", staticmethod(build))


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_gives_its_reason_and_names_flags_that_exist(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page}: unknown language {block.language}"
        if block.language != "bash":
            continue
        reason = skipped(block)
        assert reason is None or len(reason) > 10, f"{page}: why is this not run? {block.text}"
        for line, _ in commands(block):
            words = _split(line)[1]
            known = _known_flags(words)
            if known is None:
                assert reason, f"{page}: {words[0]} is not run, so say why"
                continue
            for word in words:
                if word.startswith("--"):
                    assert word.split("=")[0] in known, f"{page}: {word} of {shlex.join(words)}"


def _known_flags(words):
    """Flags of the command, None if it is neither ours nor the harness's."""
    if words[0] == "lmrel":
        assert words[1] in COMMANDS, words
        if words[1] != "run":
            return _flags(words[1:2] if words[1] not in ("label", "store") else words[1:3])
    elif not ("lm_eval" in words and "run" in words):
        return None
    else:
        del words[: words.index("run")]  # those of a launcher in front are not ours to know
    return _flags(["run"])


def _flags(command, cache={}):  # noqa: B006
    key = tuple(command)
    if key not in cache:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
            main([*command, "--help"])
        cache[key] = set(re.findall(r"--[\w-]+", shown.getvalue()))
    return cache[key]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = DOCS / page
    for target in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), f"{page}: {target}"


def test_the_reference_has_every_metric():
    from lmrel_tasks.measures import METRICS

    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w@]+)`", text))
    companions = re.compile(r"_(?:p|ci_low|ci_high)$")  # explained once, for all excesses
    missing = {name for name in METRICS if not companions.search(name)} - named
    assert not missing
