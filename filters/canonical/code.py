"""Python code answers: the source of the normalised syntax tree.

Comments, formatting, redundant brackets and docstrings go; names and statements stay. Of several
fenced blocks the last one that defines something counts (later blocks tend to be examples of
use), else the last one that parses. Text that holds no valid Python is no answer (''), so that
two broken programs never count as agreeing.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings

from lmrel_tasks.filters.canonical.common import drop_reasoning
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal

# A longer program is no benchmark answer, and parsing it takes the parser's stack.
MAX_CHARACTERS = 200_000
_FENCE = re.compile(r"^[ \t]{0,8}(`{3,}|~{3,})[ \t]{0,8}([\w+-]*)[^\n`]*$", re.M)
_FIRST_CODE = re.compile(r"^(?:def|class|import|from|async def|@\w)[ (\w]", re.M)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MAX_BLOCKS = 20


def _drop_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, (*_DEFINES, ast.Module)):
            continue
        start = 0
        while start < len(node.body) and _is_text(node.body[start]):
            start += 1
        # A program that is only a text is that text.
        if start and not (isinstance(node, ast.Module) and start == len(node.body)):
            node.body = node.body[start:] or [ast.Pass()]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _parse(source: str) -> ast.Module | None:
    source = textwrap.dedent(source).strip("\n")
    if not source.strip() or len(source) > MAX_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _source(tree: ast.Module) -> str:
    try:
        _drop_docstrings(tree)
        return ast.unparse(tree)
    except (ValueError, RecursionError, MemoryError):
        return ""


def _blocks(text: str) -> list[str]:
    """Contents of fenced blocks; an unclosed block reaches to the end."""
    blocks: list[str] = []
    opened: tuple[str, int] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = (match.group(1)[:3], match.end())
        elif match.group(1).startswith(opened[0]) and not match.group(2):
            blocks.append(text[opened[1] : match.start()])
            opened = None
    if opened is not None:
        blocks.append(text[opened[1] :])
    return blocks


def _unfenced(text: str) -> ast.Module | None:
    """Code within prose: from its first definition to its last indented line."""
    first = _FIRST_CODE.search(text)
    if first is None:
        return None
    tree = _parse(text[first.start() :]) if first.start() else None
    if tree is not None:
        return tree
    lines = text[first.start() :].split("\n")
    indented = [at for at, line in enumerate(lines) if line[:1] in (" ", "\t") and line.strip()]
    return _parse("\n".join(lines[: indented[-1] + 1])) if indented else None


def code(raw: str) -> str:
    """Normalised source of the Python code in an output; '' if there is none that parses."""
    text = drop_reasoning(raw.replace("\r\n", "\n"))
    if text.strip() == REFUSAL:
        return REFUSAL
    if "```" in text or "~~~" in text:
        trees = [tree for block in _blocks(text)[-_MAX_BLOCKS:] if (tree := _parse(block))]
        trees = [tree for tree in trees if tree.body]
        defining = [tree for tree in trees if any(isinstance(node, _DEFINES) for node in tree.body)]
        if trees:
            return _source((defining or trees)[-1])
    tree = _parse(text) or _unfenced(text)
    if tree is not None:
        return _source(tree)
    return REFUSAL if find_refusal(text) >= 0 else ""
