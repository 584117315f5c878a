"""The store's file: opening it, telling it from other files, and errors in plain words."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

APPLICATION_ID = 0x6C6D726C  # "lmrl"
VERSION = 1
BUSY_SECONDS = 60.0
CHECK_BELOW_BYTES = 64 << 20

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS models (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    """CREATE TABLE IF NOT EXISTS runs (
        id INTEGER PRIMARY KEY, key BLOB NOT NULL, model INTEGER,
        task TEXT, item TEXT, condition TEXT, run INTEGER,
        text NOT NULL, capture TEXT NOT NULL, created REAL NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS runs_key ON runs (key)",
)


class StoreError(RuntimeError):
    """The store cannot be used; the message says why and what to do."""


def connect(name: str, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(
        name, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri
    )


def open_for_reading(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StoreError(f"there is no store at {path}")
    address = path.resolve().as_uri()
    # A folder that cannot be written has no room for the WAL index: then the file is taken as is.
    for options in ("mode=ro", "mode=ro&immutable=1"):
        try:
            connection = connect(f"{address}?{options}", uri=True)
            recognise(path, connection)
            if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0:
                raise StoreError(f"there is no run in {path} yet: the file is empty")
            connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
            return connection
        except sqlite3.Error as error:
            last = error
    raise StoreError(explain(path, last))


def recognise(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse what is not a store of this or an older version; an empty file is a new store."""
    # One transaction, or a file that another process is just creating looks half made.
    connection.execute("BEGIN")
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute("COMMIT")
    if application != APPLICATION_ID:
        if tables or application:
            raise StoreError(f"{path} is an SQLite file of another program, not a store of runs")
        return
    if version > VERSION:
        raise StoreError(
            f"store {path} was written by a newer version of lmrel (format {version}, this one "
            f"reads up to {VERSION}); upgrade lmrel or use another file"
        )
    if path.stat().st_size <= CHECK_BELOW_BYTES:
        result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if result != "ok":
            raise StoreError(f"store {path} is damaged ({result}); move it away to start a new one")


def prepare(connection: sqlite3.Connection) -> None:
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    # Checkpoints sync the disk; with larger ones fewer runs wait for it.
    connection.execute("PRAGMA wal_autocheckpoint=10000")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    # Writing even where nothing changes shows a full disk or a read-only file before sampling.
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("CREATE TABLE IF NOT EXISTS opened (at REAL)")
    connection.execute("DELETE FROM opened")
    connection.execute("INSERT INTO opened VALUES (?)", (time.time(),))
    connection.execute("COMMIT")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # Two processes that create the file at once may find it busy here, whatever the timeout.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def explain(path: Path, error: sqlite3.Error) -> str:
    words = str(error)
    if "full" in words:
        return f"store {path}: the disk is full ({words}); free space or choose another place"
    if "readonly" in words or "read-only" in words:
        return f"store {path} cannot be written: it or its folder is read-only ({words})"
    if "unable to open" in words:
        return (
            f"store {path} cannot be opened or created ({words}); "
            "is its folder read-only or not a real folder?"
        )
    if "not a database" in words:
        return f"{path} is not a store of runs ({words}); choose another file"
    if "malformed" in words:
        return f"store {path} is damaged ({words}); move it away to start a new one"
    if "locked" in words or "busy" in words:
        return f"store {path} is held by another process ({words})"
    return f"store {path} failed: {words}"
