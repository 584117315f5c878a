"""The unmodified ``lm_eval`` command with the plugin's tasks, on the real model.

One test starts the command as a process of its own; the others call the same entry point in this
process, so that the harness is imported and its 10,000 stock task files are read once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import no_environment_report

from lmrel_tasks.commands.path import task_folder

TASK = "lmrel_demo_capitals"


@pytest.fixture(scope="module", autouse=True)
def read_stock_tasks_once():
    from lm_eval.tasks._index import TaskIndex

    stock = TaskIndex.build
    seen: dict[Path, Any] = {}

    def build(paths: Any, **kwargs: Any) -> Any:
        found: dict[str, Any] = {}
        for path in paths:
            if path not in seen:
                seen[path] = stock([path], **kwargs)
            found.update(seen[path])
        return found

    TaskIndex.build = staticmethod(build)
    yield
    TaskIndex.build = staticmethod(stock)


@pytest.fixture
def lm_eval(tmp_path: Path, smollm_dir: Path, monkeypatch) -> Callable[..., dict[str, Any]]:
    """Run ``lm_eval run`` with these flags; returns results and samples as the files hold them."""
    from lm_eval.__main__ import cli_evaluate

    monkeypatch.setenv("LM_HARNESS_CACHE_PATH", str(tmp_path / "requests"))
    monkeypatch.delenv("LMREL_STORE", raising=False)
    count = iter(range(100))

    def run(*flags: str, task: str = TASK, limit: str | None = "2", chat: bool = True) -> Any:
        out = tmp_path / f"out{next(count)}"
        command = [
            "lm_eval", "run", "--model", "hf",
            "--model_args", f"pretrained={smollm_dir},dtype=float32",
            "--tasks", task, "--include_path", task_folder(),
            "--log_samples", "--output_path", str(out), *flags,
        ]  # fmt: skip
        command += ["--limit", limit] if limit else []
        command += ["--apply_chat_template"] if chat else []
        monkeypatch.setattr(sys, "argv", command)
        with no_environment_report():
            cli_evaluate()
        return read(out)

    return run


def read(out: Path) -> dict[str, Any]:
    """What the harness wrote, parsed strictly: NaN and Infinity are no JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    (results,) = out.rglob("results_*.json")
    content = json.loads(results.read_text(encoding="utf-8"), parse_constant=refuse)
    content["samples"] = {
        path.name.split("_20")[0].removeprefix("samples_"): [
            json.loads(line, parse_constant=refuse)
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        for path in out.rglob("samples_*.jsonl")
    }
    return content


def texts(content: dict[str, Any], task: str = TASK) -> list[list[str]]:
    return [sample["resps"][0] for sample in content["samples"][task]]


def test_stock_command_as_its_own_process(tmp_path, smollm_gguf):
    """The command of the issue, word for word: nothing of the plugin is imported beforehand."""
    model = f"pretrained={smollm_gguf.parent},gguf_file={smollm_gguf.name},dtype=float32"
    command = [
        sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--model_args", model,
        "--tasks", "lmrel_demo", "--include_path", task_folder(), "--apply_chat_template",
        "--log_samples", "--output_path", "out", "--limit", "2",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    content = read(tmp_path / "out")
    row = content["results"]["lmrel_demo_answers"]
    for metric in ("acc", "semantic_repeatability", "internal_repeatability", "answer_agreement"):
        assert 0 <= row[f"{metric},none"] <= 1
        assert metric in done.stdout
    for task in ("capitals", "sums", "medicine"):
        row = content["results"][f"lmrel_demo_{task}"]
        assert isinstance(row["semantic_repeatability_stderr,none"], float)
        runs = content["samples"][f"lmrel_demo_{task}"][0]["lmrel"]["runs"][0]
        assert len(runs) == 8 and len({run["seed"] for run in runs}) == 8
        assert all(0 <= run["entropy"] <= 5 and run["tokens"] >= 0 for run in runs)
    row = content["results"]["lmrel_demo_bias"]
    assert 0 <= row["jsd_targeted,none"] <= 1


def test_same_numbers_at_any_batch_size_and_new_ones_at_another_seed(lm_eval):
    warm = ("--gen_kwargs", "temperature=1.5")
    base = lm_eval("--batch_size", "8", *warm)
    for size in ("1", "auto"):
        other = lm_eval("--batch_size", size, *warm)
        same = [a == b for x, y in zip(texts(base), texts(other), strict=True)
                for a, b in zip(x, y, strict=True)]  # fmt: skip
        assert sum(same) >= 0.97 * len(same) - 1
    assert texts(lm_eval("--batch_size", "8", "--seed", "5", *warm)) != texts(base)


def test_limit_and_samples_choose_items_and_leave_their_runs_alone(lm_eval):
    two = lm_eval()
    chosen = lm_eval("--samples", json.dumps({TASK: [1, 3]}), limit=None)
    assert [sample["doc_id"] for sample in chosen["samples"][TASK]] == [1, 3]
    assert texts(chosen)[0] == texts(two)[1]
    assert two["n-samples"][TASK]["effective"] == 2


def test_num_fewshot_and_system_instruction_reach_the_prompt(lm_eval):
    plain = lm_eval("--num_fewshot", "1", chat=False)["samples"][TASK][0]
    assert plain["arguments"]["gen_args_0"]["arg_0"].count("Question:") == 2
    told = lm_eval("--system_instruction", "Speak like a pirate.")["samples"][TASK][0]
    assert "Speak like a pirate." in told["arguments"]["gen_args_0"]["arg_0"]


def test_gen_kwargs_change_the_settings(lm_eval):
    sample = lm_eval("--gen_kwargs", "temperature=0.9,max_gen_toks=3")["samples"][TASK][0]
    settings = sample["arguments"]["gen_args_0"]["arg_1"]
    assert settings["temperature"] == 0.9 and settings["do_sample"] is True
    assert all(run["tokens"] <= 3 for run in sample["lmrel"]["runs"][0])


def test_predict_only_writes_runs_and_no_metric(lm_eval):
    content = lm_eval("--predict_only")
    assert len(texts(content)[0]) == 8
    assert not [key for key in content["results"][TASK] if key.startswith(("acc", "semantic"))]


def test_use_cache_keeps_runs_different(lm_eval, tmp_path):
    content = lm_eval("--use_cache", str(tmp_path / "cache"), "--gen_kwargs", "temperature=1.5")
    again = lm_eval("--use_cache", str(tmp_path / "cache"), "--gen_kwargs", "temperature=1.5")
    assert texts(content) == texts(again)
    assert any(len(set(runs)) > 1 for runs in texts(content))


def test_cached_requests_follow_new_settings(lm_eval):
    first = lm_eval("--cache_requests", "true")
    second = lm_eval("--cache_requests", "true", "--gen_kwargs", "temperature=0.01")
    settings = second["samples"][TASK][0]["arguments"]["gen_args_0"]["arg_1"]
    assert settings["temperature"] == 0.01
    assert texts(first) == texts(lm_eval("--cache_requests", "true"))


def test_config_file_and_write_out(lm_eval, tmp_path, caplog):
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"gen_kwargs": {"max_gen_toks": 2}, "write_out": True}))
    sample = lm_eval("--config", str(config))["samples"][TASK][0]
    assert all(run["tokens"] <= 2 for run in sample["lmrel"]["runs"][0])


def test_ls_and_validate(monkeypatch, capsys):
    from lm_eval.__main__ import cli_evaluate

    monkeypatch.setattr(sys, "argv", ["lm_eval", "ls", "tasks", "--include_path", task_folder()])
    cli_evaluate()
    assert TASK in capsys.readouterr().out
    monkeypatch.setattr(
        sys, "argv",
        ["lm_eval", "validate", "--tasks", "lmrel_demo", "--include_path", task_folder()],
    )  # fmt: skip
    cli_evaluate()
    assert "found" in capsys.readouterr().out.lower()


def test_two_processes_give_the_numbers_of_one(lm_eval, tmp_path, smollm_dir):
    """``accelerate launch`` splits items over ranks; seeds and table stay the same."""
    one = lm_eval(limit="4")
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--cpu",
        "--main_process_port", "0", "-m", "lm_eval", "run", "--model", "hf",
        "--model_args", f"pretrained={smollm_dir},dtype=float32", "--tasks", TASK,
        "--include_path", task_folder(), "--apply_chat_template", "--log_samples",
        "--output_path", "out2", "--limit", "4",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    two = read(tmp_path / "out2")

    def by_item(content):
        return {s["lmrel"]["item"]: s["resps"][0] for s in content["samples"][TASK]}

    first, second = by_item(one), by_item(two)
    assert first.keys() == second.keys()
    same = [a == b for key in first for a, b in zip(first[key], second[key], strict=True)]
    assert sum(same) >= 0.97 * len(same) - 1
    seeds = [
        sorted(run["seed"] for s in content["samples"][TASK] for run in s["lmrel"]["runs"][0])
        for content in (one, two)
    ]
    assert seeds[0] == seeds[1]
    if all(same):
        for key, value in one["results"][TASK].items():
            if isinstance(value, float):
                assert two["results"][TASK][key] == pytest.approx(value, abs=1e-6), key
