"""A bundle put to the test: hashes, per-run numbers, and every metric from the runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lmrel_tasks.bundling import run_table
from lmrel_tasks.recomputing import Check, recompute
from lmrel_tasks.results import Evaluation
from lmrel_tasks.unbundling import MAX_BYTES, Unpacked, unpack


def verify(
    bundle: Path, *, embedding_model: str | None = None, max_bytes: int = MAX_BYTES
) -> list[Check]:
    """Everything that can be checked of a bundle.

    Args:
        bundle: the zip file.
        embedding_model: see `recompute`.
        max_bytes: see `unpack`.

    Raises:
        ValueError, FileNotFoundError: as `unpack`.
    """
    with TemporaryDirectory(prefix="lmrel-") as folder:
        unpacked = unpack(bundle, Path(folder), max_bytes=max_bytes)
        return list(checks(unpacked, embedding_model))


def checks(unpacked: Unpacked, embedding_model: str | None = None) -> Iterator[Check]:
    """The checks of an unpacked bundle; metrics are recomputed only from undamaged files."""
    for problem in unpacked.problems:
        name, _, why = problem.partition(": ")
        yield Check("bundle", name, "differs", note=why)
    number = len(unpacked.manifest["files"])
    if not unpacked.problems:
        yield Check("bundle", "SHA-256 of the files", "equal", str(number), str(number))
    try:
        found = unpacked.evaluations()
    except FileNotFoundError:
        yield Check("bundle", "results", "cannot judge", note="no readable results file in it")
        return
    for one in found:
        yield _runs(one)
        yield from recompute(one, embedding_model)
    listed = {entry.get("results") for entry in unpacked.manifest.get("evaluations", ())}
    read = {one.path.relative_to(unpacked.folder).as_posix() for one in found}
    if listed != read:
        yield Check("bundle", "evaluations", "differs", str(len(listed)), str(len(read)))


def _runs(one: Evaluation) -> Check:
    path = one.path.with_name("runs.csv")
    try:
        kept = path.read_bytes()
        same = kept == b"".join(run_table(one))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return Check(one.model, "runs.csv", "cannot judge", note=str(error))
    number = max(0, kept.count(b"\n") - 1)
    note = "" if same else "it does not follow from the samples"
    return Check(
        one.model, "runs.csv", "equal" if same else "differs", f"{number} lines", note=note
    )


def status(found: Sequence[Check]) -> int:
    """Exit status: 1 if anything differs, else 2 if something could not be judged, else 0."""
    verdicts = {one.verdict for one in found}
    return 1 if "differs" in verdicts else 2 if "cannot judge" in verdicts else 0
