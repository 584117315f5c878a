"""What the plugin adds to the harness, and how it is packaged."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from fakes import ScriptedLM, evaluate, write_task
from lm_eval.api.group import AggMetricConfig, Group
from lm_eval.api.registry import filter_registry, get_aggregation, get_metric

from lmrel_tasks import plugin
from lmrel_tasks.harness_metrics import AGGREGATIONS
from lmrel_tasks.measures import METRICS

ITEMS = [{"question": f"q{i}?", "answer": "yes"} for i in range(3)]


def test_entry_points_name_every_metric_and_filter():
    plugin.install()
    metrics = {one.name: one for one in entry_points(group="lm_eval.metrics")
               if one.value.startswith("lmrel_tasks")}  # fmt: skip
    assert set(metrics) == set(METRICS) - {"acc"}  # acc is the harness's own name
    for name, one in metrics.items():
        assert one.load() is get_metric(name)
    filters = {one.name: one for one in entry_points(group="lm_eval.filters")
               if one.value.startswith("lmrel_tasks")}  # fmt: skip
    ours = {name for name in list(filter_registry)
            if filter_registry.get(name).__module__.startswith("lmrel_tasks")}  # fmt: skip
    assert set(filters) == ours
    for name, one in filters.items():
        assert one.load() is filter_registry.get(name)
    found = {one.name: one for one in entry_points(group="lm_eval.aggregations")
             if one.value.startswith("lmrel_tasks")}  # fmt: skip
    assert set(found) == set(AGGREGATIONS)
    assert found["lmrel_mean"].load()([1.0, None, 2.0]) == 1.5
    for name, one in found.items():
        assert one.load() is get_aggregation(name)


def test_stock_task_can_name_metrics_that_texts_decide(tmp_path):
    plugin.install()
    path = write_task(
        tmp_path, "t", ITEMS,
        filter_list=[{"name": "none", "filter": [{"function": "take_first_k", "k": 4}]}],
        metric_list=[{"metric": "answer_agreement", "aggregation": "lmrel_mean",
                      "higher_is_better": True}],
    )  # fmt: skip
    path.write_text(path.read_text().replace("class: !function", "#"))
    row = evaluate(ScriptedLM(lambda p, r: "yes"), tmp_path, "t")["results"]["t"]
    assert row["answer_agreement,none"] == 1


def test_without_class_a_metric_that_needs_more_says_what_to_do(tmp_path):
    plugin.install()
    path = write_task(
        tmp_path, "t", ITEMS,
        filter_list=[{"name": "none", "filter": [{"function": "take_first_k", "k": 4}]}],
        metric_list=[{"metric": "internal_repeatability", "aggregation": "lmrel_mean",
                      "higher_is_better": True}],
    )  # fmt: skip
    path.write_text(path.read_text().replace("class: !function", "#"))
    with pytest.raises(ValueError, match=r"class: !function lmrel_tasks\.task\.RepeatedTask"):
        evaluate(ScriptedLM(lambda p, r: "yes"), tmp_path, "t")


def test_groups_leave_undefined_values_out():
    plugin.install()

    class Leaf:
        def __init__(self, name):
            self.task_name = name

    group = Group("g", aggregate_metric_list=[AggMetricConfig(metric="acc")])
    group.get_all_tasks = lambda: [Leaf("a"), Leaf("b")]
    row = group.aggregate({
        "a": {"acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 10},
        "b": {"acc,none": "N/A", "acc_stderr,none": "N/A", "sample_len": 10},
    })  # fmt: skip
    assert row["acc,none"] == 0.5


def test_help_imports_nothing_heavy():
    import subprocess

    code = (
        "import sys; sys.argv = ['lmrel', '--help']\n"
        "from lmrel_tasks.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'lm_eval', 'scipy', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "COMMAND" in done.stdout


def test_every_command_explains_itself(capsys):
    from lmrel_tasks.cli import COMMANDS, main

    for command in COMMANDS:
        if command == "run":
            continue
        with pytest.raises(SystemExit) as done:
            main([command, "--help"])
        assert done.value.code == 0
        assert command in capsys.readouterr().out


def test_path_and_ls(capsys):
    from lmrel_tasks.cli import main

    assert main(["path"]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "demo" / "lmrel_demo.yaml").exists()
    assert main(["ls"]) == 0
    shown = capsys.readouterr().out
    assert "lmrel_demo_capitals" in shown and "answer_agreement" in shown


def test_wheel_holds_everything_and_only_our_package(tmp_path):
    import subprocess
    import zipfile

    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(root)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("lmrel-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names} == {
        "lmrel_tasks", next(name.split("/")[0] for name in names if "dist-info" in name)
    }  # fmt: skip
    tracked = subprocess.run(
        ["git", "ls-files", "lmrel_tasks", "metrics", "filters", "task_configs"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in tracked:
        inside = name if name.startswith("lmrel_tasks/") else f"lmrel_tasks/{name}"
        assert inside in names, f"{name} is not in the wheel"
