"""Classes of programs by behaviour: what a generated function does on the tests of its task.

Model-written code runs here, so a task that uses it must say ``unsafe_code: true``, and the harness
then runs it only with ``--confirm_run_unsafe_code``. What is guaranteed, on Linux:

- a process of its own per program, in an empty temporary folder, without the parent's environment
  variables; it and all processes of its session are killed when its time is over;
- processor time, address space, file size and open files limited by ``setrlimit``;
- no network at all where the kernel permits unprivileged user namespaces (`Outcome.network` is
  ``namespace``); elsewhere only Python's ``socket`` is disabled (``patched``), which stops
  accidents, not intent.

What is not: files that the user may read stay readable, and files of up to 1 MiB can be written
where the user may write. Run models that you do not trust in a container.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from lmrel_tasks.filters.canonical import REFUSAL
from lmrel_tasks.filters.canonical.common import drop_reasoning
from lmrel_tasks.filters.canonical.refusal import find_refusal

PASS = "pass"
_CHILD = Path(__file__).with_name("code_child.py")
_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.M | re.S)
_MOST_REPORT = 2**20


@dataclass(frozen=True)
class Limits:
    """What one program may use: processor seconds, seconds of the clock, MiB of memory."""

    cpu_seconds: int = 5
    wall_seconds: float = 20.0
    memory_mb: int = 1024


@dataclass(frozen=True)
class Outcome:
    """What a program did.

    Attributes:
        answer: its class. ``pass``; ``fail:<digest>`` of all its outputs on the tests, so that
            programs that fail alike share a class; ``error:<type>`` if it defines no function;
            ``timeout``; ``killed`` if it ended its process.
        network: how the network was shut, ``namespace`` or ``patched``; empty if it never said.
    """

    answer: str
    network: str = ""


def program_of(prompt: str, completion: str, entry_point: str) -> str | None:
    """The program that a completion of a function's head makes.

    Args:
        prompt: source that ends with the function's head and docstring.
        completion: the function's body; or the whole function, in a code fence or not.
        entry_point: the function's name.

    Returns:
        source that compiles, or None if the completion holds none.
    """
    text = drop_reasoning(completion.replace("\r\n", "\n"))
    head = re.compile(rf"^(?:async )?def {re.escape(entry_point)}\b", re.M)
    heads = list(head.finditer(prompt))
    before = prompt[: heads[-1].start()] if heads else prompt
    blocks = [match.group(1) for match in _FENCED.finditer(text)]
    wholes = [block for block in (*blocks, text) if head.search(block)]
    bodies = [text] if not blocks else blocks[-1:]
    sources = [f"{before}\n{whole}" for whole in reversed(wholes)]
    for body in bodies:
        for start in (body, "    " + body.lstrip()):
            kept = _body(start)
            if kept is not None:
                sources.append(prompt.rstrip("\n") + "\n" + kept)
    return next((source for source in sources if _compiles(source)), None)


def _body(text: str) -> str | None:
    """The indented lines with which a text begins, None without any code among them."""
    kept: list[str] = []
    for line in text.split("\n"):
        if line.strip() and line[0] not in " \t":
            break
        kept.append(line)
    code = [line for line in kept if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(kept) + "\n" if code else None


def _compiles(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<program>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def run_program(
    program: str, tests: str, entry_point: str, limits: Limits | None = None
) -> Outcome:
    """Run a program against tests in a process of its own.

    Args:
        program: source that defines `entry_point`.
        tests: source that defines ``check(candidate)`` with assertions.
        limits: what it may use.

    Raises:
        RuntimeError: if the process could not be started, or the system cannot limit it.
    """
    allowed = limits or Limits()
    if os.name != "posix":
        raise RuntimeError("generated code is run on POSIX systems only: limits need setrlimit")
    secret = secrets.token_hex(16)
    job = {
        "program": program, "tests": tests, "entry_point": entry_point, "secret": secret,
        "cpu_seconds": allowed.cpu_seconds, "memory_mb": allowed.memory_mb,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as report:
        # A file, not a pipe: the limit of the file size then bounds what comes back.
        process = subprocess.Popen(
            [sys.executable, "-s", "-B", str(_CHILD)],
            stdin=subprocess.PIPE, stdout=report, stderr=subprocess.DEVNULL, cwd=folder,
            env={"PYTHONHASHSEED": "0", "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            process.communicate(json.dumps(job).encode(), timeout=allowed.wall_seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        report.seek(0)
        said = report.read(_MOST_REPORT).decode("utf-8", "replace")
    if timed_out or process.returncode == -signal.SIGXCPU:
        return Outcome("timeout")
    found = [line for line in said.split("\n") if line.startswith(secret)]
    if not found:
        # The hard limit of processor time kills one second after the soft one.
        return Outcome("killed")
    return _outcome(json.loads(found[-1][len(secret) :]))


def _outcome(found: dict[str, object]) -> Outcome:
    network = str(found["network"])
    if found["passed"]:
        return Outcome(PASS, network)
    if found["stage"] == "load":
        return Outcome(f"error:{found['error']}", network)
    ended = f":{found['error']}" if found["error"] else ""
    return Outcome(f"fail:{found['digest']}{ended}", network)


def no_program(completion: str) -> str:
    """Class of a completion without a program: a refusal, or ``""``, which is no class."""
    return REFUSAL if find_refusal(completion) >= 0 else ""
