"""Sampling from the real language model of the demo (float32), inside the harness's `HFLM`."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import torch
from lm_eval.api.instance import Instance
from scipy import stats

from lmrel_tasks.run import Run
from lmrel_tasks.sampling import Cell, run_seed
from lmrel_tasks.sampling.capture import summarise
from lmrel_tasks.sampling.decode import Plan, Row, decode
from lmrel_tasks.sampling.generation import counted, decoding, ended, finished_text
from lmrel_tasks.sampling.hf import sample_hf

QUESTIONS = [
    "Name a fruit.",
    "What is the capital of Italy? Answer in one word.",
    "Is the sun a star? Answer yes or no.",
    "What is 3 + 4?",
    "Write one emoji 🎉 and the word 'día'.",
    "Say hello in three languages, one per line.",
    "Which colour is the sky?",
    "Give me a number between 1 and 10.",
    "Who wrote Hamlet?",
    "List two planets.",
]


@pytest.fixture(scope="module")
def rendered(smollm) -> list[str]:
    return [smollm.apply_chat_template([{"role": "user", "content": q}]) for q in QUESTIONS]


def cell(prompt: str, runs: int, name: str = "i", **more: Any) -> Cell:
    settings = {"do_sample": True, "temperature": 1.0, **more.pop("settings", {})}
    seed = more.pop("seed", 0)
    seeds = tuple(run_seed(seed, name, "c", run) for run in range(runs))
    return Cell(prompt, settings, tuple(range(runs)), seeds, **more)


def runs_of(lm: Any, *cells: Cell) -> list[Run]:
    found = {(place, index): run for place, index, run in sample_hf(lm, cells)}
    return [found[place, i] for place, c in enumerate(cells) for i in c.run_indices]


@pytest.mark.parametrize("settings", [{"top_k": 0}, {"temperature": 0.7, "top_k": 30}], ids=str)
def test_frequencies_follow_the_models_exact_distribution(
    smollm, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings = {"max_gen_toks": 1, **settings}
    prompt, count = "I like", 4000
    ids = smollm.tok_encode(prompt)
    assert len(ids) == 2
    logits = oracle.logits_after(smollm.model, ids)
    exact = oracle.processors(settings)(torch.tensor([ids]), logits)[0].double().softmax(-1).numpy()
    # Tokens are told apart by their text: those alone in having it, and often enough expected.
    likely = {i: smollm.tok_decode([i]) for i in np.argsort(-exact)[:60].tolist()}
    texts = list(likely.values())
    likely = {i: t for i, t in likely.items() if exact[i] * count >= 10 and texts.count(t) == 1}
    assert len(likely) >= 6
    monkeypatch.setattr(smollm, "batch_size_per_gpu", count)
    drawn = [str(run) for run in runs_of(smollm, cell(prompt, count, settings=settings))]
    observed = [drawn.count(text) for text in likely.values()]
    expected = [exact[i] * count for i in likely]
    rest = count - sum(expected)
    if rest > 5:
        observed, expected = [*observed, count - sum(observed)], [*expected, rest]
    else:
        assert sum(observed) == pytest.approx(count, abs=25)
        expected = list(np.array(expected) * sum(observed) / sum(expected))
    assert stats.chisquare(observed, expected).pvalue > 0.001


def decoded(lm: Any, prompts: list[str], rows: int, runs: int) -> dict[tuple[int, int], list[int]]:
    """What runs decode to when at most ``rows`` of them share a batch."""
    how = decoding(lm, {"do_sample": True, "temperature": 0.9, "top_k": 0, "max_gen_toks": 8})
    cells = []
    for place, prompt in enumerate(prompts):
        ids = lm.tok_encode(prompt)
        seeds = [run_seed(0, str(place), "c", run) for run in range(runs)]
        cells.append([Row(place, r, s, ids, 8) for r, s in enumerate(seeds)])
    return {(row.cell, row.index): row.tokens for row in decode(lm, cells, Plan(how), rows)}


def test_runs_do_not_depend_on_the_batch_size(smollm, rendered: list[str]) -> None:
    together = decoded(smollm, rendered[:4], 32, 8)
    for rows in (5, 8):
        apart = decoded(smollm, rendered[:4], rows, 8)
        assert np.mean([together[key] == tokens for key, tokens in apart.items()]) >= 0.97
    alone = decoded(smollm, rendered[:1], 1, 4)
    assert all(together[key] == tokens for key, tokens in alone.items())


def test_seeds_decide(smollm, rendered: list[str]) -> None:
    settings = {"settings": {"max_gen_toks": 8}}
    first = runs_of(smollm, cell(rendered[5], 8, "a", **settings))
    again = runs_of(smollm, cell(rendered[5], 8, "a", **settings))
    other = runs_of(smollm, cell(rendered[5], 8, "a", seed=1, **settings))
    assert first == again
    assert sum(a == b for a, b in zip(first, other, strict=True)) < 4
    assert len(set(first)) > 4
    part = Cell(
        rendered[5], cell(rendered[5], 1, **settings).generation, (6,), (first[6].capture.seed,)
    )
    assert runs_of(smollm, part) == [first[6]]


def test_greedy_text_is_the_harnesss_own(smollm, rendered: list[str]) -> None:
    settings = {"do_sample": False, "max_gen_toks": 16, "until": [".", "\n", " is"]}
    stock = smollm.generate_until(
        [
            Instance("generate_until", {}, (prompt, dict(settings)), i)
            for i, prompt in enumerate(rendered)
        ],
        disable_tqdm=True,
    )
    ours = runs_of(smollm, *(Cell(prompt, settings, (0,), (0,)) for prompt in rendered))
    assert [str(run) for run in ours] == stock
    assert {run.capture.finish_reason for run in ours} >= {"stop"}


@pytest.mark.parametrize("distribution", ["raw", "sampling"])
def test_capture_equals_a_second_pass_over_the_text(
    smollm, rendered: list[str], distribution: Any
) -> None:
    warps = {"temperature": 0.8, "top_k": 20}
    how = decoding(smollm, {"do_sample": True, "max_gen_toks": 12, "until": ["."], **warps})
    ids = smollm.tok_encode(rendered[8])
    seeds = [run_seed(0, "i", "c", run) for run in range(4)]
    rows = [Row(0, run, seed, ids, 12) for run, seed in enumerate(seeds)]
    for row in decode(smollm, [rows], Plan(how, 10, distribution), 8):
        with torch.inference_mode():
            every = smollm.model(torch.tensor([ids + row.tokens])).logits[0].float()
        logits = every[len(ids) - 1 : -1]
        if distribution == "sampling":
            logits = oracle.processors(warps)(None, logits)
        chosen = logits.double().log_softmax(-1).gather(1, torch.tensor(row.tokens)[:, None])
        count = counted(smollm, row.tokens, how)
        wanted = np.array([oracle.reduced(one, 10) for one in logits])[:count]
        found = summarise(row.trace[:count])
        np.testing.assert_allclose(
            [found["entropy"], found["certainty"], found["tail_mass"], found["logprob"]],
            [*wanted.mean(axis=0), float(chosen[:count].sum())],
            atol=1e-4,
        )


def ended_at(lm: Any, text: str, **settings: Any) -> tuple[str, int, list[int], str | None]:
    """Feed the tokens of ``text`` one by one, as if they were drawn; what becomes of the run."""
    how = decoding(lm, {"max_gen_toks": 100, **settings})
    tokens: list[int] = []
    for token in lm.tokenizer.encode(text, add_special_tokens=False):
        tokens.append(token)
        if reason := ended(lm, tokens, how.max_new, how):
            return finished_text(lm, tokens, how), counted(lm, tokens, how), tokens, reason
    return finished_text(lm, tokens, how), counted(lm, tokens, how), tokens, None


@pytest.mark.parametrize(
    ("text", "until", "kept"),
    [
        ("Paris.\n\nQuestion: more", ["\n\nQuestion:"], "Paris."),
        ("one two three", ["o th"], "one tw"),
        ("a long answer END of it", ["END"], "a long answer "),
        ("yes<|im_end|>never", [], "yes"),
        ("\n\nlate", ["\n\n"], ""),
        ("🎉 party 🎊 more", ["🎊"], "🎉 party "),
        ("first stop, second end", ["end", "stop"], "first "),
        ("no stop here", ["???"], "no stop here"),
        ("x" * 40 + "yyy", ["xyy"], "x" * 39),
    ],
)
def test_stop_strings(smollm, text: str, until: list[str], kept: str) -> None:
    found, count, tokens, _ = ended_at(smollm, text, until=until)
    assert found == kept
    # The counted tokens are the fewest whose text reaches the end of what is kept.
    assert smollm.tok_decode(tokens[:count]).startswith(kept)
    assert count == 0 or not smollm.tok_decode(tokens[: count - 1]).startswith(kept) or not until


def test_the_end_token_does_not_count(smollm) -> None:
    text, count, tokens, reason = ended_at(smollm, "yes it is<|im_end|>")
    assert (text, reason) == ("yes it is", "stop")
    assert count == len(tokens) - 1
    assert ended_at(smollm, "<|im_end|>")[:2] == ("", 0)


@pytest.mark.parametrize("marker", ["</think>", 3])
def test_thinking_is_cut_off(smollm, monkeypatch: pytest.MonkeyPatch, marker: str | int) -> None:
    monkeypatch.setattr(smollm, "think_end_token", marker)
    shown = marker if isinstance(marker, str) else smollm.tok_decode([marker], False)
    text, count, tokens, _ = ended_at(smollm, f"hmm, so {shown} the answer is 4 END", until=["END"])
    assert text == "the answer is 4 "
    assert count >= len(tokens) - 2


def test_empty_outputs_are_empty_and_have_no_entropy(smollm) -> None:
    asked = cell(
        "1, 2, 3,",
        4,
        settings={"max_gen_toks": 5, "until": [" ", "4"], "do_sample": False},
        top_logprobs=5,
    )
    for run in runs_of(smollm, asked):
        assert str(run) == ""
        assert run.capture.tokens == 0
        assert run.capture.entropy is None
        assert run.capture.finish_reason == "stop"


def test_prompts_of_every_kind(smollm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm, "_max_length", 40)
    long = "apples and pears " * 60
    settings = {"settings": {"max_gen_toks": 6, "do_sample": False}}
    prompts = ["", " ", "🎉🎊 señor", long]
    found = runs_of(smollm, *(cell(prompt, 1, **settings) for prompt in prompts))
    truncated = smollm.tok_encode(long)[-34:]
    for run, ids in zip(
        found,
        [[smollm.prefix_token_id], *map(smollm.tok_encode, prompts[1:3]), truncated],
        strict=True,
    ):
        tokens: list[int] = []
        for _ in range(6):
            tokens.append(int(oracle.logits_after(smollm.model, ids + tokens).argmax()))
        end = tokens.index(2) if 2 in tokens else 6
        assert str(run) == smollm.tok_decode(tokens[:end])
