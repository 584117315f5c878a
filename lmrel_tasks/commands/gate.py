"""``lmrel gate``: whether results meet the conditions of a release; for continuous integration."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "A gate file maps tasks to conditions on their metrics:\n\n"
        "  lmrel_gsm8k:\n"
        '    reliability_lower: ">= 0.90"\n'
        '    semantic_repeatability: ">= 0.8 with 95% confidence"\n\n'
        "Exit status: 0 if every condition holds for every model, 1 if one fails, 2 if none fails\n"
        "but one could not be judged, or for wrong use."
    )
    parser.add_argument("gate", metavar="GATE", help="YAML file with the conditions")
    parser.add_argument(
        "results", nargs="+", metavar="RESULTS", help="folders or results_*.json of evaluations"
    )
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML here")
    parser.add_argument("--csv", metavar="FILE", help="write the table here")
    parser.add_argument("--json", metavar="FILE", help="write the table here")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from lmrel_tasks.gating import judge, read_gate
    from lmrel_tasks.junit import write_junit
    from lmrel_tasks.markdown import markdown_table, write_csv, write_json
    from lmrel_tasks.results import find_evaluations

    conditions = read_gate(args.gate)
    evaluations = find_evaluations(args.results)
    _refuse_unreadable(args.results, evaluations)
    found = judge(conditions, evaluations)
    counts = {status: [one.status for one in found].count(status) for status in _STATUSES}  # type: ignore[arg-type]
    rows = [
        (one.model, one.task, one.metric, one.condition, one.value, one.status, one.reason)
        for one in found
    ]
    columns = ("model", "task", "metric", "condition", "value", "result", "reason")
    print(markdown_table(columns, rows))
    status = 1 if counts["fail"] else 2 if counts["error"] else 0
    print(
        f"\n{_STATUSES[['pass', 'fail', 'error'][status]]}: {counts['pass']} of {len(found)} "
        f"conditions hold, {counts['fail']} fail, {counts['error']} could not be judged."
    )
    records = [asdict(one) for one in found]
    if args.junit:
        write_junit(found, args.junit)
    if args.csv:
        write_csv(args.csv, records)
    if args.json:
        write_json(args.json, {"status": status, **counts, "judgements": records})
    return status


_STATUSES = {"pass": "PASS", "fail": "FAIL", "error": "ERROR"}


def _refuse_unreadable(results: list[str], evaluations: list) -> None:
    """An older result must not pass in place of a newer one that was only half written."""
    from lmrel_tasks.results import age_of, results_files

    read = {one.path.resolve(): one.age for one in evaluations}
    newest: dict[Path, tuple[bool, str, float]] = {}
    for path, age in read.items():
        newest[path.parent] = max(age, newest.get(path.parent, age))
    for given in map(Path, results):
        if given.is_file():
            continue
        for path in results_files(given.resolve()):
            age = age_of(path)
            dated = age[0]
            # The harness dates all that it writes: an undated file by itself is none of its.
            is_newer = age > newest[path.parent] if path.parent in newest else dated
            if path not in read and is_newer and (dated or _breaks_off(path)):
                raise ValueError(
                    f"{path} is newer than the results beside it and not readable "
                    "(half-written?); run that evaluation again, or remove the file"
                )


def _breaks_off(path: Path) -> bool:
    """True for an object without its end, as a copy that was cut short; False for other files."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").lstrip()
        json.loads(text)
    except (ValueError, RecursionError):
        return text.startswith("{")
    except OSError:
        return True
    return False
