"""``lmrel certify``: which of these runs reach a reliability? The exit status is the gate."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmrel_tasks.certification import Certificate
    from lmrel_tasks.judge import Judge
    from lmrel_tasks.repeats import Repeats

ITEMS_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Exit status: 0 if every input reaches --min-reliability, 1 if one does not, 2 if one\n"
        "cannot be judged.\n\n"
        "  lmrel certify out/ --kind mcq --alpha 0.1 --min-reliability 0.9\n"
        "  lmrel certify runs.jsonl --kind numeric --output certificates/"
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH",
        help="samples file or results folder of lm_eval, or JSON lines {id, gold, responses}",
    )  # fmt: skip
    add_reading_arguments(parser)
    parser.add_argument("--alpha", type=float, default=0.1, help="miscoverage of the sets (0.1)")
    parser.add_argument(
        "--min-reliability", type=float, metavar="X", help="what the gate asks for (1 - alpha)"
    )
    parser.add_argument(
        "--gate", choices=["lower", "level"], default="lower",
        help="test the lower confidence bound (default), or the raw level, which exceeds the "
        "true value in more than a third of experiments",
    )  # fmt: skip
    parser.add_argument("--confidence", type=float, default=0.95, help="of the bound (0.95)")
    parser.add_argument(
        "--ties", choices=["random", "conservative"], default="random",
        help="order of answers of equal frequency",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the order of ties (0)")
    parser.add_argument("--by", metavar="FIELD", help="also calibrate every group of items alone")
    parser.add_argument("--labels", metavar="FILE", help="labels in place of gold answers")
    parser.add_argument(
        "--output", metavar="DIR", help="write certificate.json and CSV tables here"
    )
    parser.add_argument(
        "--items", action="store_true", help=f"print the items even if more than {ITEMS_SHOWN}"
    )


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """How answers are read from responses: the same for certificates and labels."""
    from lmrel_tasks.filters.canonical import KINDS

    parser.add_argument(
        "--kind", choices=[*KINDS, "embedding", "judge"],
        help="how to read answers; not needed for files of this package's own tasks",
    )  # fmt: skip
    parser.add_argument(
        "--choices", metavar="FIELD|A,B",
        help="answer options for mcq and label: a field of the items, or a list",
    )  # fmt: skip
    parser.add_argument("--condition", metavar="NAME", help="the condition to read (the first)")
    parser.add_argument(
        "--cluster-threshold", type=float, metavar="COSINE", help="for --kind embedding (0.85)"
    )
    parser.add_argument("--embedder", metavar="NAME", help="embedding model for --kind embedding")
    parser.add_argument(
        "--judge", metavar="URL|MODEL",
        help="a judge to compare with: OpenAI-compatible endpoint or model type of lm_eval",
    )  # fmt: skip
    parser.add_argument(
        "--judge-model", metavar="NAME|ARGS", help="its name there, or its model_args"
    )
    parser.add_argument(
        "--store", metavar="FILE", help="keeps the judge's replies ($LMREL_STORE or the cache)"
    )
    parser.add_argument("--no-store", action="store_true", help="ask the judge anew, keep nothing")


def run(args: argparse.Namespace) -> int:
    """Judge every input; see the exit statuses in `configure`."""
    from lmrel_tasks.metrics.bounds import check_probability
    from lmrel_tasks.repeats import inputs_of

    check_probability(args.alpha, "alpha")
    check_probability(args.confidence, "confidence")
    if args.min_reliability is None:
        args.min_reliability = 1.0 - args.alpha
    check_probability(args.min_reliability, "min-reliability")
    judge = open_judge_of(args)
    done: list[dict[str, Any]] = []
    status = 0
    for name, path in inputs_of(args.paths):
        try:
            found = _judged(name, path, args, judge)
        except (ValueError, OSError) as error:
            found = {"input": name, "file": str(path), "error": str(error)}
            print(f"{name}: cannot be judged\n  {error}\n")
        status = max(status, 2 if "error" in found else int(not found["qualifies"]))
        done.append(found)
    if len(done) > 1:
        print(_comparison(done, args))
    if args.output:
        from lmrel_tasks.certificate_files import write_certificates

        for path in write_certificates(Path(args.output), done):
            print(f"wrote {path}")
    return status


def load_items(
    path: Path, args: argparse.Namespace, *, texts: bool, gold: bool = True,
    judge: Judge | None = None,
) -> list[Repeats]:  # fmt: skip
    """The items of a file as the command line says they are to be read."""
    from lmrel_tasks.certification import load
    from lmrel_tasks.filters.clusters import THRESHOLD
    from lmrel_tasks.labelling import read_labels
    from lmrel_tasks.repeats import Reading

    choices: str | list[str] | None = args.choices
    if args.choices and "," in args.choices:
        choices = [one.strip() for one in args.choices.split(",")]
    labels_file = getattr(args, "labels", None)
    reading = Reading(
        kind=args.kind,
        choices=choices,
        condition=args.condition,
        group=getattr(args, "by", None),
        texts=texts or args.kind == "judge",
        gold=gold and labels_file is None,
    )
    if args.kind == "judge" and judge is None:
        judge = open_judge_of(args)
    return load(
        path,
        reading,
        read_labels(Path(labels_file), args.kind) if labels_file else None,
        encode=lambda: _encoder(args.embedder),
        match=judge.matches if judge else None,
        cluster_threshold=THRESHOLD if args.cluster_threshold is None else args.cluster_threshold,
    )


def open_judge_of(args: argparse.Namespace) -> Judge | None:
    """The judge that the command line names, or None."""
    if not args.judge:
        if args.kind == "judge":
            raise ValueError("--kind judge needs --judge")
        return None
    from lmrel_tasks.judge import open_judge
    from lmrel_tasks.model_files import cache_folder
    from lmrel_tasks.settings import STORE_VARIABLE

    store = args.store or os.environ.get(STORE_VARIABLE) or cache_folder() / "runs.sqlite"
    return open_judge(args.judge, args.judge_model, store=None if args.no_store else store)


def _encoder(model: str | None) -> Any:
    from lmrel_tasks.embedder import encoder
    from lmrel_tasks.settings import EMBEDDER_VARIABLE

    return encoder(model or os.environ.get(EMBEDDER_VARIABLE))


def _judged(name: str, path: Path, args: argparse.Namespace, judge: Judge | None) -> dict[str, Any]:
    from lmrel_tasks.certification import certify, finite

    items = load_items(path, args, texts=judge is not None, judge=judge)
    certificate = certify(
        items,
        alpha=args.alpha,
        confidence=args.confidence,
        threshold=args.min_reliability,
        ties=args.ties,
        seed=args.seed,
    )
    qualifies = certificate.passes(args.min_reliability, args.gate)
    print(_report(name, certificate, args, qualifies))
    found: dict[str, Any] = {
        "input": name,
        "file": str(path),
        "kind": args.kind,
        "qualifies": qualifies,
        "gate": args.gate,
        "min_reliability": args.min_reliability,
        "ties": args.ties,
        "seed": args.seed,
        **certificate.to_dict(),
        "rows": certificate.rows,
    }
    if judge is not None:
        from dataclasses import asdict

        from lmrel_tasks.judge_baseline import judge_baseline

        baseline = judge_baseline(judge, items, certificate.rows, args.confidence)
        accepts = baseline.lower if args.gate == "lower" else baseline.accepted.estimate
        decision = accepts >= args.min_reliability
        found["judge"] = finite({**asdict(baseline), "qualifies": decision})
        print(
            f"  judge {baseline.judge}: calls {_share(baseline.accepted)} right (lower bound "
            f"{baseline.lower:.3f}) and would say {_word(decision)}; "
            f"agrees with gold on {_share(baseline.accuracy)}, kappa {baseline.kappa:.2f}, "
            f"{baseline.false_accepts} false accepts, {baseline.false_rejects} false rejects, "
            f"{baseline.unclear} unclear"
        )
    if len(certificate.rows) <= ITEMS_SHOWN or args.items:
        print(_item_table(certificate))
    print()
    return found


def _share(share: Any) -> str:
    return f"{share.successes}/{share.n} ({share.estimate:.3f})"


def _word(qualifies: bool) -> str:
    return "QUALIFIES" if qualifies else "DOES NOT QUALIFY"


def _report(name: str, one: Certificate, args: argparse.Namespace, qualifies: bool) -> str:
    runs = f"{one.runs_min}" if one.runs_min == one.runs_max else f"{one.runs_min}-{one.runs_max}"
    gap, level = one.coverage.capability_gap, one.level
    tested = "lower bound" if args.gate == "lower" else "level"
    lines = [
        f"{name}: {_word(qualifies)} ({tested} {getattr(level, args.gate):.3f}, "
        f"asked for {args.min_reliability:g})",
        f"  {one.items} items, {runs} responses each",
        f"  reliability level   {level.level:.3f}  (most frequent answer acceptable on "
        f"{level.successes} of {level.n} items)",
        f"  lower bound         {level.lower:.3f}  (exact, {100 * level.confidence:g} %)",
        f"  prediction sets     {_sets(one)}",
        f"  coverage            {_coverage(one)}",
        f"  capability gap      {gap.estimate:.3f} [{gap.ci_low:.3f}, {gap.ci_high:.3f}] "
        "never sampled an acceptable answer",
        f"  responses           {one.accuracy:.3f} acceptable; agreement of pairs "
        f"{one.answer_agreement:.3f}, always one answer {one.tar_answer:.3f}",
    ]
    if not one.level.lower >= args.min_reliability:
        lines.append(f"  {f'to show {args.min_reliability:g}':<18}  {_needed(one)}")
    lines += [
        f"  group {group}: level {part.level:.3f}, lower bound {part.lower:.3f} "
        f"({part.successes}/{part.n}), "
        + (f"M* = {sets.m_star:g}" if sets.feasible else "no finite M*")
        for group, (part, sets) in one.groups.items()
    ]
    return "\n".join(lines + [f"  note: {note}" for note in one.notes])


def _sets(one: Certificate) -> str:
    if not one.sets.feasible:
        return f"infeasible: {one.sets.reason}"
    return f"M* = {one.sets.m_star:g} at alpha = {one.sets.alpha:g}; mean size {one.set_size:.2f}"


def _coverage(one: Certificate) -> str:
    cover = one.coverage
    if not one.sets.feasible or cover.infeasible == 1:
        why = "" if not one.sets.feasible else ", which there is for no item from the others alone"
        return (
            f"not defined without a finite M*{why}; with every sampled answer as set it is "
            "trivial: 1 - capability gap"
        )
    text = (
        f"{cover.coverage:.3f} [{cover.ci_low:.3f}, {cover.ci_high:.3f}] leave-one-out; "
        f"{cover.coverage_solvable:.3f} on solvable items"
    )
    if cover.infeasible > 0:
        text += f"; {100 * cover.infeasible:.0f} % of the items get every sampled answer as set"
    return text


def _needed(one: Certificate) -> str:
    accuracy = f"a mode accuracy of {one.mode_accuracy:.3f} (ties broken at random)"
    if one.needed is None:
        return f"no number of items will do at {accuracy}"
    return f"about {one.needed.n} items at {accuracy}"


def _item_table(one: Certificate) -> str:
    lines = [f"  {'id':<20} {'runs':>4} {'rank':>4}  most frequent answer (share) | set"]
    for row in one.rows:
        rank = "?" if row.score != row.score else "-" if row.score == float("inf") else row.score
        shown = rank if isinstance(rank, str) else f"{rank:g}"
        sets = ", ".join(_brief(text, 24) for text in row.prediction_set)
        lines.append(
            f"  {_brief(row.id, 20):<20} {row.runs:>4} {shown:>4}  "
            f"{_brief(row.answer, 30) or '(none)'} ({row.share:.2f}) | {{{sets}}}"
        )
    return "\n".join(lines)


def _brief(text: str, width: int) -> str:
    # What a model wrote must not steer the terminal.
    plain = "".join(one if one.isprintable() else " " for one in text)
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def _brief_end(text: str, width: int) -> str:
    """The end of a name, which says more than its beginning: the task, or the file."""
    return _brief(text[::-1], width)[::-1]


def _comparison(done: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    width = min(max(len(one["input"]) for one in done), 60)
    lines = [f"{'input':<{width}}  items  level  lower  {args.min_reliability:g} reached?"]
    ranked = sorted(done, key=lambda one: -one["level"]["lower"] if "level" in one else 2.0)
    for one in ranked:
        name = f"{_brief_end(one['input'], width):<{width}}"
        if "error" in one:
            lines.append(f"{name}  cannot be judged")
            continue
        level = one["level"]
        lines.append(
            f"{name}  {one['items']:>5}  {level['level']:.3f}  {level['lower']:.3f}  "
            f"{'yes' if one['qualifies'] else 'no'}"
        )
    return "\n".join(lines)
