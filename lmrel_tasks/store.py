"""The store: one SQLite file that keeps every run, so that none is paid for twice.

A run is committed before `Store.put` returns, in WAL mode with ``synchronous=NORMAL``: killing the
process at any moment loses nothing that was put, and several processes may share the file. (A
power failure may lose the last moments, never the file.) Runs that came in one answer of a server
are committed together (`Run.pending`), because they were drawn together.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.store_file import (
    StoreError,
    connect,
    explain,
    open_for_reading,
    prepare,
    recognise,
)

log = logging.getLogger(__name__)

_CHUNK = 500
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Store:
    """An open store. Use `Store.open`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, readonly: bool = False) -> None:
        self.path = path
        self.readonly = readonly
        self._connection = connection
        self._lock = threading.Lock()
        self._models: dict[str, int] = {}
        self._latest: tuple[Any, int | None] = (None, None)
        self._held: list[tuple[bytes, Run, Mapping[str, Any]]] = []
        self._memory: dict[bytes, Run] = {}
        self._broken = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True) -> Store:
        """Open the store at `path`, and make sure now that it can be written.

        Args:
            path: the file; folders on the way are created.
            create: False opens an existing store for reading only.

        Raises:
            StoreError: for a read-only folder, a full disk, a file that is damaged, is no store
                or was written by a newer version.
        """
        name = os.fspath(path)
        if not name.strip() or name.startswith(":") or "\0" in name:
            raise StoreError(f"store {name!r} is no path of a file")
        try:
            target = Path(path).expanduser()
            folder = target.is_dir() or name.endswith(os.sep)
        except (OSError, RuntimeError) as error:
            raise StoreError(f"store {name}: {error}") from None
        if folder:
            raise StoreError(f"store {target} is a folder; give the path of a file")
        if not create:
            return cls(target, open_for_reading(target), readonly=True)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"store {target}: cannot create its folder: {error}") from None
        try:
            connection = connect(str(target))
            recognise(target, connection)
            prepare(connection)
        except sqlite3.Error as error:
            raise StoreError(explain(target, error)) from None
        return cls(target, connection)

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Run]:
        """The runs that are there, by key.

        Raises:
            StoreError: when the file turns out to be damaged.
        """
        wanted = list(keys)
        # Filters write on runs, so that the one in memory is not given away.
        found = {key: self._memory[key].derive() for key in wanted if key in self._memory}
        with self._lock:
            held = {key: run for key, run, _ in self._held}
            try:
                for start in range(0, len(wanted), _CHUNK):
                    chunk = wanted[start : start + _CHUNK]
                    marks = ",".join("?" * len(chunk))
                    rows = self._connection.execute(
                        f"SELECT key, text, capture FROM runs WHERE key IN ({marks})", chunk
                    )
                    for key, text, capture in rows:
                        found[key] = _run(text, capture)
            except sqlite3.Error as error:
                if self._broken:
                    return found
                raise StoreError(explain(self.path, error)) from None
        found.update((key, held[key]) for key in wanted if key in held)
        return found

    def put(self, key: bytes, run: Run, meta: Mapping[str, Any]) -> None:
        """Keep a run; it is safe when this returns, unless more of its answer is pending.

        The first run under a key stays. Missing runs are not kept: a rerun asks for them again.
        If the file cannot be written any more, one warning is logged and runs are kept in memory.

        Args:
            key: from `lmrel_tasks.identity.run_key`.
            run: the run.
            meta: what the listing shows: ``model`` (its identity), ``task``, ``item``,
                ``condition``, ``run``. Other entries are ignored.
        """
        with self._lock:
            if not run.missing:
                self._held.append((key, run, meta))
            if run.pending == 0:
                self._flush()

    def put_many(self, rows: Iterable[tuple[bytes, Run, Mapping[str, Any]]]) -> None:
        """Keep many runs in one transaction."""
        with self._lock:
            self._held.extend(row for row in rows if not row[1].missing)
            self._flush()

    @property
    def in_memory(self) -> bool:
        """True once the file could not be written and runs are kept in memory."""
        return self._broken

    def close(self) -> None:
        """Write what is held and close the file."""
        with self._lock:
            self._flush()
            self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _flush(self) -> None:
        if not self._held:
            return
        rows, self._held = self._held, []
        if not self._broken:
            try:
                self._write(rows)
                return
            except sqlite3.Error as error:
                self._broken = True
                log.warning(
                    "%s. Sampling goes on and results are written, but from now on runs are kept "
                    "in memory only and a rerun will draw them again.",
                    explain(self.path, error),
                )
                _roll_back(self._connection)
        for key, run, _ in rows:
            self._memory.setdefault(key, run.derive())

    def _write(self, rows: list[tuple[bytes, Run, Mapping[str, Any]]]) -> None:
        now = time.time()
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for key, run, meta in rows:
            execute(
                "INSERT OR IGNORE INTO runs (key, model, task, item, condition, run, text, "
                "capture, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    key,
                    self._model_id(meta.get("model")),
                    meta.get("task"),
                    meta.get("item"),
                    meta.get("condition"),
                    meta.get("run"),
                    _storable(str(run)),
                    _written(run.capture),
                    now,
                ),
            )
        execute("COMMIT")

    def _model_id(self, identity: Mapping[str, Any] | None) -> int | None:
        if identity is None:
            return None
        if identity is self._latest[0]:
            return self._latest[1]
        text = json.dumps(identity, sort_keys=True, default=str)
        if text not in self._models:
            self._connection.execute("INSERT OR IGNORE INTO models (identity) VALUES (?)", (text,))
            row = self._connection.execute("SELECT id FROM models WHERE identity = ?", (text,))
            self._models[text] = int(row.fetchone()[0])
        self._latest = (identity, self._models[text])
        return self._models[text]

    def summary(self) -> list[dict[str, Any]]:
        """One row per model and task: numbers of items, conditions and runs, first and last."""
        return [
            {
                "model": json.loads(identity) if identity else None,
                "task": task,
                "items": items,
                "conditions": conditions,
                "runs": runs,
                "first": first,
                "last": last,
            }
            for identity, task, items, conditions, runs, first, last in self._select(
                "SELECT m.identity, r.task, COUNT(DISTINCT r.item), COUNT(DISTINCT r.condition), "
                "COUNT(*), MIN(r.created), MAX(r.created) FROM runs r "
                "LEFT JOIN models m ON m.id = r.model GROUP BY r.model, r.task ORDER BY MIN(r.id)"
            )
        ]

    def rows(self, task: str | None = None) -> Iterator[dict[str, Any]]:
        """Every run as plain JSON values, in the order it was stored."""
        for identity, name, item, condition, run, text, capture, created in self._select(
            "SELECT m.identity, r.task, r.item, r.condition, r.run, r.text, r.capture, r.created "
            "FROM runs r LEFT JOIN models m ON m.id = r.model WHERE ?1 IS NULL OR r.task = ?1 "
            "ORDER BY r.id",
            (task,),
        ):
            yield {
                "model": json.loads(identity) if identity else None,
                "task": name,
                "item": item,
                "condition": condition,
                "run": run,
                "text": str(_run(text, capture)),
                **json.loads(capture),
                "created": created,
            }

    def prune(self, task: str | None = None, before: float | None = None) -> int:
        """Delete the runs of a task, or stored before a Unix time, or both; returns how many."""
        with self._lock:
            try:
                count = self._connection.execute(
                    "DELETE FROM runs WHERE (?1 IS NULL OR task = ?1) "
                    "AND (?2 IS NULL OR created < ?2)",
                    (task, before),
                ).rowcount
                self._connection.execute("VACUUM")
            except sqlite3.Error as error:
                raise StoreError(explain(self.path, error)) from None
        return count

    def _select(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise StoreError(explain(self.path, error)) from None


def _roll_back(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        log.debug("the store could not be rolled back: %s", error)


def _written(capture: Capture) -> str:
    return _encode(capture.to_dict())


def _storable(text: str) -> str | bytes:
    try:
        if not text.isascii():
            text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        # Half a surrogate pair, as a server's JSON may hold.
        return text.encode("utf-8", "surrogatepass")


def _run(text: str | bytes, capture: str) -> Run:
    whole = text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text
    values = json.loads(capture)
    try:
        return Run(whole, Capture(**values))
    except TypeError:  # a field that this version does not know
        return Run(whole, Capture.from_dict(values))
