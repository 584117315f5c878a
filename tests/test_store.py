"""The store: keys, safety against errors of the file, several processes, the command line."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sqlite3
import time
from pathlib import Path

import pytest
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.openai_completions import LocalCompletionsAPI

from lmrel_tasks import store_cli
from lmrel_tasks.file_hashes import files_hash
from lmrel_tasks.identity import cell_key, model_identity, plain_url, run_key
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.store import Store
from lmrel_tasks.store_file import StoreError

MODEL = {"class": "x.Y", "name": "m", "revision": "main"}
BASE = dict(
    model=MODEL,
    prompt="How many?",
    generation={"temperature": 0.7, "until": ["\n"], "max_gen_toks": 16},
    item="i1",
    condition="plain",
    capture={"top_logprobs": 30, "logprobs": "raw"},
)


def meta(**changes):
    return {"model": MODEL, "task": "t", "item": "i1", "condition": "plain", "run": 0} | changes


def key(index: int, seed: int = 7) -> bytes:
    return run_key(cell_key(**BASE), seed, index)


@pytest.mark.parametrize(
    "changed",
    [
        dict(model=MODEL | {"revision": "other"}),
        dict(prompt="How many"),
        dict(prompt=JsonChatStr("How many?")),
        dict(generation=BASE["generation"] | {"temperature": 0.8}),
        dict(generation=BASE["generation"] | {"top_k": 5}),
        dict(item="i2"),
        dict(condition="other"),
        dict(capture={"top_logprobs": 20, "logprobs": "raw"}),
        dict(item="plain", condition="i1"),
    ],
)
def test_whatever_changes_the_draws_changes_the_key(changed):
    assert cell_key(**BASE | changed) != cell_key(**BASE)


def test_seed_and_run_change_the_key_and_spelling_does_not():
    assert len({key(0), key(1), key(0, seed=8)}) == 3
    respelt = {"max_gen_toks": 16.0, "until": ("\n",), "temperature": 0.7}
    assert cell_key(**BASE | {"generation": respelt}) == cell_key(**BASE)
    with pytest.raises(TypeError, match="setting"):
        cell_key(**BASE | {"generation": {"until": object()}})


def test_a_run_comes_back_as_it_was(tmp_path):
    capture = Capture(seed=2**63 - 1, tokens=3, finish_reason="stop", entropy=0.1 + 0.2, top_k=20.0)
    texts = ["plain", "", "nul\0inside", "emoji 🦉", "half a pair \ud83e", "line\r\nends "]
    path = tmp_path / "deep" / "runs.sqlite"
    with Store.open(path) as store:
        for index, text in enumerate(texts):
            store.put(key(index), Run(text, capture), meta(run=index))
    with Store.open(path) as store:
        found = store.get_many(key(index) for index in range(10))
    assert [str(found[key(index)]) for index in range(len(texts))] == texts
    assert len(found) == len(texts)
    assert all(run.capture == capture for run in found.values())


def test_the_first_run_stays_and_missing_runs_are_not_kept(tmp_path):
    with Store.open(tmp_path / "s") as store:
        store.put(key(0), Run("first"), meta())
        store.put(key(0), Run("second"), meta())
        store.put(key(1), Run("", Capture(error="timeout")), meta(run=1))
        assert {k: str(run) for k, run in store.get_many([key(0), key(1)]).items()} == {
            key(0): "first"
        }


def test_runs_of_one_answer_are_committed_together(tmp_path):
    with Store.open(tmp_path / "s") as store, Store.open(tmp_path / "s") as other:
        for index, left in enumerate((2, 1, 0)):
            run = Run(f"text {index}")
            run.pending = left
            store.put(key(index), run, meta(run=index))
            seen = len(other.get_many([key(0), key(1), key(2)]))
            assert seen == (3 if left == 0 else 0)
            assert len(store.get_many([key(0), key(1), key(2)])) == index + 1
        held = Run("held")
        held.pending = 1
        store.put(key(3), held, meta(run=3))
    with Store.open(tmp_path / "s") as store:
        assert key(3) in store.get_many([key(3)])  # an orderly end keeps what is held


def test_put_is_safe_against_a_killed_process(tmp_path):
    def write_and_die(path):
        store = Store.open(path)
        for index in range(50):
            store.put(key(index), Run(f"text {index}"), meta(run=index))
        os.kill(os.getpid(), 9)

    child = multiprocessing.get_context("fork").Process(
        target=write_and_die, args=(tmp_path / "s",)
    )
    child.start()
    child.join(30)
    assert child.exitcode == -9
    with Store.open(tmp_path / "s") as store:
        assert len(store.get_many(key(index) for index in range(60))) == 50


def _writer(path, start, count):
    with Store.open(path) as store:
        for index in range(start, start + count):
            store.put(key(index), Run(f"text {index}"), meta(run=index))


def test_processes_share_the_file(tmp_path):
    # Six processes create the file at once and write overlapping runs.
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=_writer, args=(tmp_path / "s", 50 * i, 100)) for i in range(6)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 6
    with Store.open(tmp_path / "s") as store:
        found = store.get_many(key(index) for index in range(400))
        assert {str(run) for run in found.values()} == {f"text {index}" for index in range(350)}
        assert store.summary()[0]["runs"] == 350


def test_files_that_are_no_store_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello, I am a text file, not a database" * 50)
    with pytest.raises(StoreError, match="not a store"):
        Store.open(tmp_path / "text")
    foreign = sqlite3.connect(tmp_path / "foreign")
    foreign.execute("CREATE TABLE notes (x)")
    foreign.commit()
    foreign.close()
    with pytest.raises(StoreError, match="another program"):
        Store.open(tmp_path / "foreign")
    with pytest.raises(StoreError, match="folder"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="no store"):
        Store.open(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()


def test_a_newer_version_is_refused(tmp_path):
    Store.open(tmp_path / "s").close()
    with sqlite3.connect(tmp_path / "s") as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="newer version"):
        Store.open(tmp_path / "s")


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "s"
    with Store.open(path) as store:
        rows = [(key(i), Run("word " * 50), meta(run=i)) for i in range(500)]
        store.put_many(rows)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="damaged"):
        Store.open(path)
    path.write_bytes(whole[:8192] + os.urandom(len(whole) - 8192))
    with pytest.raises(StoreError, match="damaged"):
        Store.open(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into read-only folders")
def test_a_read_only_folder_is_refused(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    with Store.open(folder / "s") as store:
        store.put(key(0), Run("text"), meta())
    folder.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="read-only"):
            Store.open(folder / "new")
        with Store.open(folder / "s", create=False) as store:
            assert len(store.get_many([key(0)])) == 1
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("path", ["/proc/lmrel.sqlite", "/proc/lmrel/runs.sqlite"])
def test_a_place_that_takes_no_files_is_refused(path):
    if not Path("/proc/self").exists():
        pytest.skip("needs a /proc file system")
    with pytest.raises(StoreError, match="cannot"):
        Store.open(path)


def _with_file_limit(path, limit, results):
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if limit < 10_000:  # the disk is full from the start
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        store = Store.open(path)
    except StoreError as error:
        results.put(str(error))
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    import logging

    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("lmrel_tasks.store").addHandler(handler)
    for index in range(300):
        store.put(key(index), Run("word " * 200), meta(run=index))
    found = store.get_many(key(index) for index in range(300))
    results.put((len(messages), messages[0] if messages else "", store.in_memory, len(found)))


def _in_child(function, *args):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=function, args=(*args, results))
    child.start()
    result = results.get(timeout=60)
    child.join(30)
    return result


def test_a_disk_that_fills_up_mid_run_leaves_the_runs_in_memory(tmp_path):
    # A limit on the size of files makes the system refuse writes as a full disk does.
    count, words, in_memory, found = _in_child(_with_file_limit, tmp_path / "s", 150_000)
    assert (count, in_memory) == (1, True)
    assert "kept in memory" in words
    assert found >= 100
    with Store.open(tmp_path / "s") as store:  # what was written before is still good
        assert 0 < store.summary()[0]["runs"] < 300


def test_a_full_disk_is_refused_before_sampling(tmp_path):
    words = _in_child(_with_file_limit, tmp_path / "s", 2048)
    assert isinstance(words, str)
    assert str(tmp_path / "s") in words


def test_sqlite_full_is_explained(tmp_path, caplog):
    store = Store.open(tmp_path / "s")
    store._connection.execute("PRAGMA max_page_count=8")
    for index in range(50):
        store.put(key(index), Run("word " * 500), meta(run=index))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "disk is full" in caplog.text
    found = store.get_many(key(index) for index in range(50))
    assert len(found) == 50
    for run in found.values():  # as filters do
        run.answer = "word"
    assert {run.answer for run in store.get_many(found).values()} == {None}
    store.close()


def test_no_secret_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    lm = LocalCompletionsAPI(
        base_url="http://user:sk-very-secret-2@127.0.0.1:9/v1/completions?api-key=sk-very-secret-3"
        "&api-version=2",
        model="m",
        tokenizer_backend=None,
        header={"Authorization": "Bearer sk-very-secret-4"},
    )
    identity = model_identity(lm)
    assert identity["base_url"] == "http://127.0.0.1:9/v1/completions?api-version=2"
    assert identity["model"] == "m"
    with Store.open(tmp_path / "s") as store:
        store.put(key(0), Run("text"), meta(model=identity, headers={"x": "sk-very-secret-5"}))
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in written
    assert plain_url("https://[::1]:8000/v1?token=a") == "https://[::1]:8000/v1"


def test_api_identity_ignores_what_does_not_change_the_draws():
    common = dict(base_url="http://127.0.0.1:9/v1/completions", tokenizer_backend=None)
    one = model_identity(LocalCompletionsAPI(model="m", num_concurrent=1, **common))
    two = model_identity(LocalCompletionsAPI(model="m", num_concurrent=9, timeout=5, **common))
    other = model_identity(LocalCompletionsAPI(model="n", **common))
    assert one == two != other
    json.dumps(one)


def test_changed_weights_are_another_model(tmp_path, monkeypatch):
    monkeypatch.setenv("LMREL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    weights = folder / "model.safetensors"
    weights.write_bytes(b"\0" * 3_000_000)
    first = files_hash(folder)
    assert files_hash(folder) == first
    changed = bytearray(weights.read_bytes())
    changed[2_999_999] = 1  # the same size, one bit of the last weight
    weights.write_bytes(changed)
    os.utime(weights, ns=(time.time_ns(), time.time_ns() + 10**9))
    assert files_hash(folder) != first
    second = files_hash(folder)
    (folder / "notes.md").write_text("no weight")
    assert files_hash(folder) == second


def test_bulk_speed(tmp_path):
    runs = [
        Run("word " * 80, Capture(seed=i, tokens=80, entropy=1.0, certainty=0.5))
        for i in range(2000)
    ]
    with Store.open(tmp_path / "s") as store:
        began = time.process_time()
        for index, run in enumerate(runs):
            store.put(key(index), run, meta(run=index))
        each = (time.process_time() - began) / len(runs)
    # The target is 0.2 ms of wall time on a quiet machine (benchmarks/backends.py); processor time
    # with room to spare keeps this test from failing on a busy one.
    assert each < 0.001


def run_cli(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    store_cli.configure(parser)
    return store_cli.run(parser.parse_args(argv))


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "runs.sqlite"
    with Store.open(path) as store:
        for task, items in (("alpha", 2), ("beta", 1)):
            for item in range(items):
                for index in range(3):
                    name = run_key(cell_key(**BASE | {"item": f"{task}{item}"}), 1, index)
                    capture = Capture(seed=index, entropy=1.5)
                    row = meta(task=task, item=f"{task}{item}", run=index)
                    store.put(name, Run(f"{task} {index}", capture), row)
    return str(path)


def test_ls_and_info(filled, capsys):
    assert run_cli("ls", "--store", filled) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:5] == ["m", "alpha", "2", "1", "6"]
    assert lines[2].split()[:5] == ["m", "beta", "1", "1", "3"]
    assert run_cli("info", "--store", filled) == 0
    assert "runs: 9" in capsys.readouterr().out


def test_an_empty_file_holds_no_run(tmp_path):
    (tmp_path / "empty.sqlite").touch()
    for action in ("ls", "info", "export"):
        with pytest.raises(StoreError, match="the file is empty"):
            run_cli(action, "--store", str(tmp_path / "empty.sqlite"))


def test_export(filled, capsys, tmp_path):
    assert run_cli("export", "--store", filled, "--task", "beta") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["text"], row["run"], row["seed"], row["entropy"]) for row in rows] == [
        (f"beta {i}", i, i, 1.5) for i in range(3)
    ]
    assert rows[0]["model"] == MODEL
    target = tmp_path / "all.jsonl"
    assert run_cli("export", "--store", filled, "--output", str(target)) == 0
    assert len(target.read_text().splitlines()) == 9


def test_prune(filled, monkeypatch, capsys):
    assert run_cli("prune", "--store", filled) == 2
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert run_cli("prune", "--store", filled, "--task", "alpha") == 1
    assert run_cli("prune", "--store", filled, "--older-than", "1d", "--yes") == 0
    with Store.open(filled) as store:
        assert sum(row["runs"] for row in store.summary()) == 9
    assert run_cli("prune", "--store", filled, "--task", "alpha", "--yes") == 0
    with Store.open(filled) as store:
        assert [row["task"] for row in store.summary()] == ["beta"]
    with sqlite3.connect(filled) as connection:
        connection.execute("UPDATE runs SET created = created - 90000")
    assert run_cli("prune", "--store", filled, "--older-than", "1d", "--yes") == 0
    with Store.open(filled) as store:
        assert store.summary() == []
    with pytest.raises(argparse.ArgumentTypeError, match="age"):
        store_cli.seconds("soon")


def test_no_store_is_said(monkeypatch, tmp_path):
    monkeypatch.delenv("LMREL_STORE", raising=False)
    monkeypatch.setenv("LMREL_CACHE", str(tmp_path))
    with pytest.raises(StoreError, match="no store"):
        run_cli("ls")


@pytest.mark.parametrize("path", ["", "  ", ":memory:", "a\0b", "x" * 300, "newdir/"])
def test_what_is_no_path_of_a_file_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError):
        Store.open(path)
    assert list(tmp_path.iterdir()) == []
