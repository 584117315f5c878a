"""Generated programs: their classes by behaviour, and what they may not do."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from fakes import ScriptedLM, evaluate, write_task

from lmrel_tasks.code_execution import Limits, no_program, program_of, run_program
from lmrel_tasks.data import task_folder
from lmrel_tasks.filters.behaviour import BehaviourFilter
from lmrel_tasks.run import Run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits need setrlimit")

HUB = Path(__file__).parent / "data" / "hub"
HEAD = 'def double(x):\n    """Twice x.\n    """\n'
TESTS = """
def check(candidate):
    assert candidate(1) == 2
    assert candidate(0) == 0
    assert candidate(-3) == -6
"""
QUICK = Limits(cpu_seconds=1, wall_seconds=8.0, memory_mb=256)


def humaneval() -> list[dict]:
    path = HUB / "openai/openai_humaneval/openai_humaneval/test.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def outcome(body: str, tests: str = TESTS, limits: Limits = QUICK) -> str:
    program = program_of(HEAD, body, "double")
    assert program is not None
    return run_program(program, tests, "double", limits).answer


# Assembling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "completion",
    [
        "    return 2 * x\n",
        "return 2 * x",  # a model that does not repeat the blanks
        "    y = x\n\n    return x + y\n\nprint(double(3))\n",
        "    return 2 * x\n\n\nThis function doubles its argument.",
        "```python\ndef double(x):\n    return 2 * x\n```",
        "So:\n```python\nimport math\n\ndef double(x):\n    return x + x\n```\nIt doubles x.",
        "def double(x):\n    return 2 * x\n",
        "```\n    return 2 * x\n```",
        "<think>maybe x + x</think>    return x + x\n",
        "    return 2 * x\r\n",
        "```python\ndef double(x):\n    return 3 * x\n```\nWait, this is right:\n"
        "```python\ndef double(x):\n    return 2 * x\n```",
    ],
)
def test_completions_become_programs(completion):
    program = program_of(HEAD, completion, "double")
    names: dict = {}
    exec(program, names)
    assert [names["double"](x) for x in (1, 0, -3)] == [2, 0, -6]


@pytest.mark.parametrize(
    "completion",
    ["", "   \n\n", "    # to do\n", "Sorry, no.", "    return (x *\n", "```\nno code here\n```"],
)
def test_text_without_a_program_is_no_program(completion):
    assert program_of(HEAD, completion, "double") is None


def test_refusals_are_a_class_and_silence_is_none():
    assert no_program("I'm sorry, I can't help with that.") == "refusal"
    assert no_program("hm") == ""


def test_imports_and_helpers_of_the_head_stay():
    prompt = "import math\n\n\ndef helper(x):\n    return math.floor(x)\n\n\n" + HEAD
    fenced = "```\ndef double(x):\n    return 2 * helper(x)\n```"
    for completion in ("    return 2 * helper(x)\n", fenced):
        program = program_of(prompt, completion, "double")
        assert run_program(program, TESTS, "double").answer == "pass"


# Classes ---------------------------------------------------------------------------------------


def test_programs_that_pass_are_one_class_and_failures_are_told_apart():
    assert outcome("    return 2 * x\n") == outcome("    return x + x\n") == "pass"
    wrong = outcome("    return x * x\n")
    assert wrong.startswith("fail:")
    assert outcome("    y = x\n    return y ** 2\n") == wrong  # another text, the same behaviour
    assert outcome("    return x\n") != wrong
    assert outcome("    return None\n") not in (wrong, outcome("    return x\n"))


def test_all_assertions_count_not_only_the_first_that_fails():
    # Both fail the first assertion and differ in the last.
    one = outcome("    return 5 if x == 1 else 2 * x\n")
    other = outcome("    return 5 if x == 1 else x\n")
    assert one.startswith("fail:") and other.startswith("fail:") and one != other


def test_exceptions_are_behaviour():
    raised = outcome("    raise ValueError(x)\n")
    assert raised == outcome("    return int('x')\n")  # raises ValueError for every x
    assert raised != outcome("    raise KeyError(x)\n")
    assert outcome("    return [][x]\n").startswith("fail:")
    assert outcome("    import sys\n    sys.exit(0)\n").startswith("fail:")
    assert outcome("    return undefined_name\n") == outcome("    return another_undefined\n")


def test_programs_that_define_nothing_or_end_their_process():
    assert run_program("x = 1", TESTS, "double", QUICK).answer == "error:KeyError"
    assert run_program("raise OSError", TESTS, "double", QUICK).answer == "error:OSError"
    assert run_program("import os\nos._exit(0)", TESTS, "double", QUICK).answer == "killed"


def test_addresses_hash_order_and_random_inputs_do_not_split_classes():
    body = "    return [object(), {'a', 'b', 'c', 'd', str(x)}]\n"
    assert outcome(body) == outcome(body)
    drawing = "import random\ndef check(candidate):\n    for _ in range(5):\n" \
              "        assert candidate(random.random()) is None\n"  # fmt: skip
    assert outcome("    return x\n", drawing) == outcome("    return x + 0\n", drawing)


def test_tests_that_stop_early_fail():
    tests = "def check(candidate):\n    assert candidate(1) == 2\n    candidate(0)[0]\n"
    assert outcome("    return 2 * x\n", tests).startswith("fail:")
    assert outcome("    return 2 * x\n", tests).endswith(":TypeError")


def test_a_forged_report_does_not_count():
    forged = '    import sys\n    print("pass")\n    sys.stdout.flush()\n    return 0\n'
    assert outcome(forged).startswith("fail:")
    spam = (
        "    import os\n    for fd in range(1, 20):\n        try:\n"
        "            os.write(fd, b'{\"passed\": true}\\n')\n        except OSError:\n"
        "            pass\n    os._exit(0)\n"
    )
    assert outcome(spam) == "killed"


# Limits ----------------------------------------------------------------------------------------


def test_endless_loops_end():
    started = time.monotonic()
    assert outcome("    while True:\n        pass\n") == "timeout"
    asleep = Limits(cpu_seconds=5, wall_seconds=3.0, memory_mb=256)
    assert outcome("    import time\n    time.sleep(600)\n", limits=asleep) == "timeout"
    assert time.monotonic() - started < 60


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_memory_is_limited():
    assert outcome("    return len(bytearray(2**30))\n") == outcome("    raise MemoryError\n")


def test_no_network():
    # The outputs tell: connecting fails in the same way as raising OSError by hand.
    tests = "def check(candidate):\n    assert candidate('127.0.0.1')\n"
    body = (
        "    import socket\n    try:\n        with socket.create_connection((x, {port}), 2):\n"
        "            return True\n    except OSError:\n        return False\n"
    )
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 2):
            pass  # the parent gets through
        program = program_of(HEAD, body.format(port=port), "double")
        found = run_program(program, tests, "double", QUICK)
    refused = run_program(program_of(HEAD, "    return False\n", "double"), tests, "double", QUICK)
    assert found.answer == refused.answer
    assert found.network in ("namespace", "patched")


def test_secrets_and_children_stay_out(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    tests = "def check(candidate):\n    assert candidate(0) == 'none'\n"
    body = "    import os\n    return os.environ.get('SECRET_TOKEN', 'none')\n"
    assert outcome(body, tests) == "pass"
    mark = tmp_path / "mark"
    child = (
        "    import subprocess\n    try:\n"
        f"        subprocess.Popen(['sh', '-c', 'sleep 3; echo x > {mark}'])\n"
        "    except OSError:\n        pass\n    return 2 * x\n"
    )
    outcome(child)
    time.sleep(4)
    assert not mark.exists()


def test_large_files_cannot_be_written():
    tests = "def check(candidate):\n    assert candidate(0) == 'refused'\n"
    body = (
        "    import signal\n    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n    try:\n"
        "        with open('big', 'wb') as file:\n            file.write(bytes(2**22))\n"
        "    except OSError:\n        return 'refused'\n    return 'written'\n"
    )
    assert outcome(body, tests) == "pass"


# Filter and task -------------------------------------------------------------------------------


def test_filter_answers_columns_single_strings_and_equal_programs_once(monkeypatch):
    import lmrel_tasks.filters.behaviour as behaviour

    ran = []
    real = behaviour.run_program

    def counted(*job):
        ran.append(job)
        return real(*job)

    monkeypatch.setattr(behaviour, "run_program", counted)
    doc = {"prompt": HEAD, "test": TESTS, "entry_point": "double"}
    cells = [["    return 2 * x\n", Run("    return 2 * x\n"), "    return x\n"], "no code"]
    found = BehaviourFilter(cpu_seconds=1).apply(cells, [doc, doc])
    assert [run.answer for run in found[0]][:2] == ["pass", "pass"]
    assert found[0][2].answer.startswith("fail:")
    assert [str(run) for run in found[0]] == [str(run) for run in cells[0]]
    assert found[1] == "no code" and found[1].answer == ""
    assert len(ran) == 2


def test_filter_names_the_field_that_a_document_lacks():
    with pytest.raises(ValueError, match="filter behaviour: the document has no field 'test'"):
        BehaviourFilter().apply([["x"]], [{"prompt": HEAD, "entry_point": "double"}])
    with pytest.raises(ValueError, match="cpu_seconds >= 1"):
        BehaviourFilter(cpu_seconds=0)


@pytest.fixture
def run(monkeypatch):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    monkeypatch.chdir(HUB)
    manager = TaskManager(include_path=str(task_folder()), include_defaults=False)

    def evaluated(answer, task="lmrel_humaneval", **options):
        lm = ScriptedLM(answer)
        return simple_evaluate(model=lm, tasks=[task], task_manager=manager, **options), lm

    return evaluated


def test_nothing_runs_without_confirmation(run, tmp_path):
    lm_calls = []
    with pytest.raises(ValueError, match="unsafe"):
        run(lambda p, r: lm_calls.append(p) or "    return 1\n")
    assert lm_calls == []
    write_task(
        tmp_path, "t", [{"question": HEAD, "answer": "pass"}],
        filter_list=[{"name": "none", "filter": [{"function": "behaviour"}]}],
    )  # fmt: skip
    with pytest.raises(ValueError, match="task t: the filter behaviour runs what the model wrote"):
        evaluate(ScriptedLM(lambda p, r: "x"), tmp_path, "t", confirm_run_unsafe_code=True)


def test_predict_only_runs_nothing(run, monkeypatch):
    import lmrel_tasks.filters.behaviour as behaviour

    monkeypatch.setattr(behaviour, "run_program", lambda *job: pytest.fail("ran a program"))
    results, _ = run(lambda p, r: "    return 1\n", confirm_run_unsafe_code=True, predict_only=True)
    assert len(results["samples"]["lmrel_humaneval"]) == 3


def test_humaneval_by_hand(run):
    items = humaneval()
    names = [one["entry_point"] for one in items]

    def answer(prompt: str, number: int) -> str:
        at = next(i for i, name in enumerate(names) if f"def {name}(" in prompt)
        right = items[at]["canonical_solution"]
        if at == 0:
            return right if number < 12 else "    return False\n"
        if at == 1:  # the wrong behaviour wins, in two spellings
            wrong = ["    return 7.5\n", "    y = 7.5\n    return y\n"][number % 2]
            return right if number < 8 else wrong
        return "I'm sorry, I can't help with that."

    results, lm = run(answer, confirm_run_unsafe_code=True)
    assert len(lm.asked) == 60  # no early stopping
    row = results["results"]["lmrel_humaneval"]
    assert row["acc,none"] == pytest.approx((12 + 8 + 0) / 60)
    assert row["mode_acc,none"] == pytest.approx(1 / 3)
    assert row["reliability_level,none"] == pytest.approx(1 / 4)
    assert row["capability_gap,none"] == pytest.approx(1 / 3)
    assert row["prediction_set_size,none"] == pytest.approx((2 + 2 + 1) / 3)
    answers = [[one["answer"] for one in s["lmrel"]["runs"][0]]
               for s in results["samples"]["lmrel_humaneval"]]  # fmt: skip
    assert answers[0][:12] == ["pass"] * 12
    assert len(set(answers[1][8:])) == 1 and answers[1][8].startswith("fail:")
    assert set(answers[2]) == {"refusal"}
    json.dumps(results["samples"], allow_nan=False, default=str)


def test_humaneval_for_chat_models_starts_in_the_fence(run):
    solutions = {one["entry_point"]: one for one in humaneval()}

    def answer(prompt: str, number: int) -> str:
        assert prompt.rstrip().endswith('"""')
        name = next(one for one in solutions if prompt.count(f"def {one}("))
        body = solutions[name]["canonical_solution"]
        return body if number % 2 else f"```python\n{solutions[name]['prompt']}{body}```\n"

    results, _ = run(answer, "lmrel_humaneval_instruct", confirm_run_unsafe_code=True)
    row = results["results"]["lmrel_humaneval_instruct"]
    assert row["acc,none"] == row["mode_acc,none"] == 1
