"""A study that is killed again and again. ``python killed_study.py MODEL KILLS FOLDER ...``.

The imports and the model are loaded once; every attempt is a forked child that evaluates a task
with a store and gets SIGKILL after a random while. What counts is what the store and the final,
undisturbed attempt hold. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

from fakes import evaluate, write_task
from tqdm import tqdm

ITEMS = [
    {"question": f"Name {what}.", "answer": "x"}
    for what in ("a fruit", "a river", "a colour", "a metal", "a bird", "a city")
]
RUNS = 4


def write_study(folder: Path, **changes: Any) -> None:
    write_task(
        folder, "study", ITEMS, repeats=RUNS, metric_list=[{"metric": "answer_agreement"}],
        generation_kwargs={
            "do_sample": True, "temperature": 1.0, "max_gen_toks": 12, "until": ["\n"],
        },
        **changes,
    )  # fmt: skip


def load(kind: str, address: str) -> Any:
    if kind == "hf":
        from lm_eval.models.huggingface import HFLM

        return HFLM(pretrained=address, dtype="float32", device="cpu", batch_size=4)
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    return LocalCompletionsAPI(
        model="scripted", base_url=address, tokenized_requests=False, tokenizer_backend=None,
        num_concurrent=3, max_retries=5,
    )  # fmt: skip


def texts(lm: Any, folder: Path) -> dict[str, list[str]]:
    """Runs of every item of a whole study."""
    samples = evaluate(lm, folder, "study", bootstrap_iters=0)["samples"]["study"]
    return {sample["lmrel"]["item"]: list(map(str, sample["resps"][0])) for sample in samples}


def stored(path: Path) -> dict[tuple[str, int], str]:
    """What the store holds, read without the code under test."""
    if not path.exists():
        return {}
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT item, run, text FROM runs").fetchall()
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()
    assert len({row[:2] for row in rows}) == len(rows), "a run is stored twice"
    return {(item, run): text for item, run, text in rows}


def attempt(lm: Any, folder: Path, seconds: float) -> bool:
    """Evaluate in a child that is killed after so many seconds; True if it finished before."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        # A bar's lock is shared with the parent: killed while it holds it, the child would leave
        # it locked for good.
        tqdm.set_lock(threading.RLock())
        status = 1
        try:
            texts(lm, folder)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, "an attempt failed by itself"
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> None:
    kind, address, kills, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    write_study(folder)
    lm = load(kind, address)
    undisturbed = texts(lm, folder)
    started = time.monotonic()
    texts(lm, folder)
    whole = time.monotonic() - started
    rng = random.Random(7)
    done, changed, sizes = 0, 0, []
    store = folder / "runs.sqlite"
    os.environ["LMREL_STORE"] = str(store)
    while done < kills:
        before = stored(store)
        if attempt(lm, folder, rng.uniform(0.1, 1.0) * whole):
            # The study got through: go on with a new one, so that every kill falls into sampling.
            for part in folder.glob("runs.sqlite*"):
                part.unlink()
            continue
        done += 1
        after = stored(store)
        changed += any(after.get(key) != text for key, text in before.items())
        sizes.append(len(after))
    kept = stored(store)
    final = texts(lm, folder)
    complete = stored(store)
    print(
        json.dumps(
            {
                "undisturbed": undisturbed,
                "final": final,
                "changed_after_a_kill": changed,
                "resampled": sum(complete[key] != text for key, text in kept.items()),
                "stored": len(complete),
                "sizes": sizes,
            }
        )
    )


if __name__ == "__main__":
    main()
