"""``lmrel paraphrase``: token-matched paraphrases of a bias task's items."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from lmrel_tasks.limits import items_limit


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", help="a bias task")
    parser.add_argument(
        "--from", dest="results", metavar="RESULTS",
        help="take the paraphrases of a lmrel_paraphrase_* task from its results instead",
    )  # fmt: skip
    parser.add_argument("-o", "--output", required=True, metavar="JSONL", help="file to write")
    parser.add_argument(
        "--method", choices=["lexical", "model"],
        help="lexical needs no language model; model is the default with --model",
    )  # fmt: skip
    parser.add_argument(
        "--model", metavar="TYPE",
        help="harness model type that writes them (hf, local-chat-completions, ...)",
    )  # fmt: skip
    parser.add_argument("--model_args", default="", metavar="ARGS", help="as in lm_eval")
    parser.add_argument(
        "--tokenizer", metavar="NAME",
        help="tokenizer of the model under test (that of --model_args); `words` counts words",
    )  # fmt: skip
    parser.add_argument("--include_path", metavar="DIR", help="folder of the task")
    parser.add_argument(
        "--metadata", action="append", default=[], metavar="KEY=VALUE", help="as in lm_eval"
    )
    parser.add_argument("--targeted", metavar="NAME", help="this targeted condition only")
    parser.add_argument("--count", type=int, default=1, metavar="K", help="per item (1)")
    parser.add_argument("--attempts", type=int, default=6, help="replies per paraphrase (6)")
    parser.add_argument(
        "--tolerance", type=float, default=0.005,
        help="allowed difference of the edit fractions (0.005)",
    )  # fmt: skip
    parser.add_argument("--min-cosine", type=float, default=0.9, help="least cosine (0.9)")
    parser.add_argument("--embedder", metavar="MODEL", help="sentence-transformers model")
    parser.add_argument("--no-embedder", action="store_true", help="do not check the meaning")
    parser.add_argument("--retry-failed", action="store_true", help="try failures again")
    parser.add_argument("--store", metavar="FILE", help="keeps replies (LMREL_STORE)")
    parser.add_argument("--limit", type=items_limit, metavar="N", help="first N items only")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> int:
    from lm_eval.utils import simple_parse_args_string

    from lmrel_tasks.paraphrase_files import BaselineFile, Work, make_by_model, make_lexical
    from lmrel_tasks.paraphrasing import Matching, embedding_cosine

    if (args.task is None) == (args.results is None):
        raise ValueError("give either --task or --from")
    if args.results is not None:
        from lmrel_tasks.paraphrase_files import from_results

        print(from_results(args.results, Path(args.output)))
        return 0
    for name in ("count", "attempts"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} must be 1 or more, got {getattr(args, name)}")
    method = args.method or ("model" if args.model else "lexical")
    if method == "model" and not args.model:
        raise ValueError("--method model needs --model and --model_args")
    model_args = simple_parse_args_string(args.model_args)
    metadata = {**model_args, **dict(_pair(one) for one in args.metadata)}
    tokens = _tokens(args, model_args)
    task = _task(args, metadata)
    jobs = jobs_of(task, args.targeted, args.limit)
    cosine = None if args.no_embedder else embedding_cosine(args.embedder)
    work = Work(
        tokens, Matching(args.tolerance, args.min_cosine, cosine), args.count, args.attempts,
        args.seed,
    )  # fmt: skip
    heading = {
        "task": args.task, "method": method, "tokenizer": Path(tokens.name).name,
        "tolerance": args.tolerance, "min_cosine": args.min_cosine if cosine else None,
        "count": args.count, "seed": args.seed,
        **({"model": args.model_args} if method == "model" else {}),
    }  # fmt: skip
    file = BaselineFile(Path(args.output), heading)
    left = file.left(jobs, again=args.retry_failed)
    if method == "lexical":
        make_lexical(file, left, work)
    elif left:
        lm = _model(args.model, model_args)
        store = _store(args)
        try:
            make_by_model(file, left, work, lm, store)
        finally:
            if store is not None:
                store.close()
    print(file.summary(jobs))
    return 0


def jobs_of(task: Any, targeted: str | None = None, limit: int | None = None) -> list:
    """What there is to paraphrase: per item and targeted condition that applies, its texts.

    Raises:
        ValueError: if the task has no such condition.
    """
    from lmrel_tasks.edits import names_with
    from lmrel_tasks.paraphrase_files import Job
    from lmrel_tasks.request import item_key

    edits = getattr(getattr(task, "editor", None), "edits", {})
    names = names_with(edits, "targeted")
    if targeted is not None and targeted not in names:
        raise ValueError(f"--targeted {targeted!r} is none of {', '.join(names) or '(none)'}")
    if not names:
        raise ValueError("the task has no targeted condition (metadata.lmrel.conditions)")
    original = names_with(edits, "original")[0]
    jobs = []
    for _, doc in task.doc_iterator(limit=limit):
        key = item_key(doc)
        text = task.editor.edited(doc, key, original).text
        for name in [targeted] if targeted else names:
            edited = task.editor.edited(doc, key, name)
            if text is not None and edited.exists and edited.text is not None:
                jobs.append(Job(key, name, text, edited.text))
    return jobs


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found:
        raise ValueError(f"--metadata takes KEY=VALUE, got {text!r}")
    return key, value


def _tokens(args: argparse.Namespace, model_args: dict[str, Any]) -> Any:
    from lmrel_tasks.token_ids import WORDS, tokens_of

    if args.tokenizer == WORDS:
        return tokens_of({})
    named = {"tokenizer": args.tokenizer} if args.tokenizer else model_args
    tokens = tokens_of(named)
    if tokens.name == WORDS:
        raise ValueError(
            "no tokenizer of the model under test: give --tokenizer NAME (or a --model_args "
            "that holds one); --tokenizer words counts words instead"
        )
    return tokens


def _task(args: argparse.Namespace, metadata: dict[str, Any]) -> Any:
    from lm_eval.tasks import TaskManager

    from lmrel_tasks.commands.path import task_folder

    folders = [task_folder(), *([args.include_path] if args.include_path else [])]
    manager = TaskManager(include_path=folders, include_defaults=False, metadata=metadata)
    known = manager.all_tasks
    if args.task not in known:
        raise ValueError(f"no task {args.task!r} below {', '.join(map(str, folders))}")
    loaded = manager.load([args.task])
    return loaded["tasks"][args.task]


def _model(kind: str, model_args: dict[str, Any]) -> Any:
    from lm_eval.api.registry import get_model

    from lmrel_tasks.sampling.collect import load_backends

    try:
        lm = get_model(kind).create_from_arg_obj(model_args)
    except (KeyError, ValueError) as error:
        raise ValueError(f"--model {kind}: {error}") from None
    load_backends()
    return lm


def _store(args: argparse.Namespace) -> Any:
    from lmrel_tasks.model_files import cache_folder
    from lmrel_tasks.settings import STORE_VARIABLE
    from lmrel_tasks.store import Store

    usual = os.environ.get(STORE_VARIABLE) or cache_folder() / "runs.sqlite"
    return Store.open(args.store or usual)
