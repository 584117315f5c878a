"""The command ``lmrel``. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

# command -> (module with configure(parser) and run(args), one line of help)
COMMANDS = {
    "path": ("lmrel_tasks.commands.path", "print the folder of the tasks, for --include_path"),
    "ls": ("lmrel_tasks.commands.ls", "list the tasks and the metrics"),
    "run": ("lmrel_tasks.commands.run", "lm_eval run, with the plugin and its tasks in place"),
    "wrap": ("lmrel_tasks.commands.wrap", "make repeated tasks of the harness's own tasks"),
    "store": ("lmrel_tasks.store_cli", "list, export and prune the kept runs"),
    "certify": ("lmrel_tasks.commands.certify", "gate repeated runs by a certified reliability"),
    "label": ("lmrel_tasks.commands.label", "acceptable answers given by people, on a page"),
    "reproducibility": (
        "lmrel_tasks.commands.reproducibility",
        "compare prompts, right and wrong answers, and models in stored runs",
    ),
    "rr": ("lmrel_tasks.commands.rr", "gauge R&R (ISO 5725) table of stored runs"),
    "report": ("lmrel_tasks.commands.report", "results as one page with figures and runs"),
    "compare": ("lmrel_tasks.commands.compare", "test results against each other, item by item"),
    "bundle": ("lmrel_tasks.commands.bundle", "results that anyone can recompute, in one file"),
    "verify": ("lmrel_tasks.commands.verify", "recompute a bundle from its runs"),
    "leaderboard": ("lmrel_tasks.commands.leaderboard", "rank the models of verified bundles"),
    "gate": ("lmrel_tasks.commands.gate", "pass or fail results by a YAML file of conditions"),
    "plan": ("lmrel_tasks.commands.plan", "cost and statistical power of a run, before it"),
    "bias": ("lmrel_tasks.commands.bias", "tests of every perturbation against rewording"),
    "bias-task": ("lmrel_tasks.commands.bias_task", "write a bias task for texts of your own"),
    "paraphrase": ("lmrel_tasks.commands.paraphrase", "make token-matched paraphrases of a task"),
    "demo": ("lmrel_tasks.commands.demo", "measure a small real model on bundled items"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``lmrel``.

    Returns:
        the exit status: 0 for success, 2 for wrong use or bad input, 141 where nobody reads the
        output to its end (``| head``), as for other commands of a shell.
    """
    try:
        status = _main(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still to be written, at exit too, has no reader.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _main(argv: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="lmrel",
        description="Repeatability, baseline-adjusted bias and certified reliability for lm_eval.",
        epilog="`lmrel COMMAND --help` says more about a command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = given[0] if given and given[0] in COMMANDS else None
    for name, (module_name, help_line) in COMMANDS.items():
        # `run` hands everything on, its --help too.
        command = commands.add_parser(
            name, help=help_line, description=help_line, add_help=name != "run"
        )
        if name == chosen:
            module = importlib.import_module(module_name)
            module.configure(command)
            command.set_defaults(handler=module.run)
    if chosen == "run":
        return int(importlib.import_module(COMMANDS["run"][0]).run(given[1:]))
    arguments = parser.parse_args(given)
    if arguments.version:
        from importlib.metadata import version

        print(version("lmrel"))
        return 0
    if chosen is None:
        parser.print_help()
        return 0
    try:
        return int(arguments.handler(arguments) or 0)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, RuntimeError) as error:
        print(f"lmrel {chosen}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"lmrel {chosen}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
