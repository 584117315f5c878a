"""Runs one program against its tests, inside a process of its own. Started by `code_execution`.

Standard library only. Takes a JSON job on standard input, limits itself, runs the program, and
writes one line to standard output: a secret word, then what happened as JSON. The program's own
output goes nowhere.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import hashlib
import json
import os
import random
import re
import resource
import sys
from collections.abc import Callable
from typing import Any

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OUTCOME = "_lmrel_outcome"


def limit(cpu_seconds: int, memory_mb: int) -> None:
    """Lower this process's limits; none of them can be raised again without privileges."""
    memory = memory_mb * 2**20
    wanted = [
        ("RLIMIT_CPU", cpu_seconds, cpu_seconds + 1),
        ("RLIMIT_AS", memory, memory),
        ("RLIMIT_FSIZE", 2**20, 2**20),
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_NOFILE", 64, 64),
        ("RLIMIT_NPROC", 0, 0),
    ]
    for name, soft, hard in wanted:
        which = getattr(resource, name, None)
        if which is not None:
            # macOS refuses some of them; the parent's clock still ends the process.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(which, (soft, hard))


def close_network() -> str:
    """Take the network away: ``namespace`` where the kernel permits it, else ``patched``."""
    with contextlib.suppress(OSError, AttributeError):
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
            return "namespace"
    import socket

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("programs under test have no network")

    for name in ("socket", "socketpair", "create_connection", "getaddrinfo", "gethostbyname"):
        setattr(socket, name, refuse)
    sys.modules["_socket"] = socket
    return "patched"


class _Watched(ast.NodeTransformer):
    """Turns every assertion into one whose outcome is noted, so that the next ones still run."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        note = "{0}({1})"
        tried = ast.parse(
            f"try:\n    pass\nexcept BaseException:\n    {note.format(_OUTCOME, False)}\n"
            f"else:\n    {note.format(_OUTCOME, True)}"
        ).body[0]
        assert isinstance(tried, ast.Try)
        tried.body = [node]
        return ast.fix_missing_locations(ast.copy_location(tried, node))


def behaviour(program: str, tests: str, entry_point: str) -> dict[str, Any]:
    """What the program's function gives for every call that the tests make.

    Returns:
        ``stage`` (``load``, ``tests`` or ``done``: how far it came), ``error`` (type of the
        exception that ended it), ``passed``, and ``digest`` of all outputs and outcomes.
    """
    seen = hashlib.sha256()
    failed = False

    def note(outcome: bool) -> None:
        nonlocal failed
        failed = failed or not outcome
        seen.update(b"+" if outcome else b"-")

    names: dict[str, Any] = {"__name__": "program", _OUTCOME: note}
    random.seed(0)
    try:
        exec(compile(program, "<program>", "exec"), names)
        function = names[entry_point]
    except BaseException as error:
        return {"stage": "load", "error": type(error).__name__, "passed": False, "digest": ""}
    # Tests draw random inputs: the same ones for every program.
    random.seed(0)
    names[_OUTCOME] = note
    finished, error_name = True, ""
    try:
        exec(compile(_Watched().visit(ast.parse(tests)), "<tests>", "exec"), names)
        names["check"](_watch(function, seen))
    except BaseException as error:
        finished, error_name = False, type(error).__name__
    return {
        "stage": "done" if finished else "tests",
        "error": error_name,
        "passed": finished and not failed,
        "digest": seen.hexdigest()[:16],
    }


def _watch(function: Callable[..., Any], seen: Any) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            shown = _ADDRESS.sub("", repr(result))
        except BaseException as error:
            seen.update(f"!{type(error).__name__};".encode())
            raise
        seen.update(f"{type(result).__name__}={shown};".encode("utf-8", "surrogatepass"))
        return result

    return called


def main() -> None:
    job = json.load(sys.stdin)
    report = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    # Modules next to this file are no part of the program's world.
    sys.path[:] = [one for one in sys.path if one != os.path.dirname(os.path.abspath(__file__))]
    network = close_network()
    limit(job["cpu_seconds"], job["memory_mb"])
    found = behaviour(job["program"], job["tests"], job["entry_point"])
    line = f"\n{job['secret']} {json.dumps({**found, 'network': network})}\n"
    os.write(report, line.encode())
    os._exit(0)


if __name__ == "__main__":
    main()
