"""The decoder on small random models of many architectures, against the slow obvious sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import torch
import transformers
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models, pre_tokenizers

from lmrel_tasks.sampling import Cell, run_seed, sample_runs
from lmrel_tasks.sampling.decode import Plan, Row, decode
from lmrel_tasks.sampling.draws import uniforms
from lmrel_tasks.sampling.generation import decoding
from lmrel_tasks.sampling.hf import capacity
from lmrel_tasks.sampling.shared_prefix import SharedPrefix, works_with

VOCABULARY = 512
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
LLAMA = {**COMMON, "num_key_value_heads": 2, "intermediate_size": 96}

# name -> configuration class, its arguments, whether prompts are shared
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "llama": ("LlamaConfig", LLAMA, True),
    "qwen2": ("Qwen2Config", LLAMA, True),
    "mistral-window": ("MistralConfig", {**LLAMA, "sliding_window": 6}, False),
    "gemma2": ("Gemma2Config", {**LLAMA, "head_dim": 16, "sliding_window": 6}, False),
    "gpt2": ("GPT2Config", {**COMMON, "n_positions": 256}, True),
    "bloom": ("BloomConfig", {**COMMON, "n_head": 4, "n_layer": 2}, False),
    "mamba": ("MambaConfig", {**COMMON, "state_size": 4}, False),
}


def build(name: str) -> HFLM:
    kind, arguments, _ = ARCHITECTURES[name]
    torch.manual_seed(3)
    config = getattr(transformers, kind)(**arguments)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        # Fresh weights predict almost nothing; larger ones make peaked, varied distributions.
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4.0)
    special = ["<unk>", "<s>", "</s>"]
    table = {word: i for i, word in enumerate(special)}
    table |= {f"w{i}": i for i in range(len(special), VOCABULARY)}
    words = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        unk_token="<unk>",
    )
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=64, max_length=200)


@pytest.fixture(scope="module")
def llama() -> HFLM:
    return build("llama")


def prompts(count: int) -> list[list[int]]:
    rng = np.random.default_rng(8)
    return [rng.integers(3, VOCABULARY, size=rng.integers(1, 14)).tolist() for _ in range(count)]


def text(ids: list[int]) -> str:
    return " ".join(f"w{i}" for i in ids)


def make_cells(count: int, runs: int, settings: dict[str, Any], **more: Any) -> list[Cell]:
    seeds = [tuple(run_seed(1, str(i), "c", r) for r in range(runs)) for i in range(count)]
    return [
        Cell(text(ids), settings, tuple(range(runs)), seed, **more)
        for ids, seed in zip(prompts(count), seeds, strict=True)
    ]


SETTINGS = {"do_sample": True, "temperature": 0.8, "top_k": 0, "max_gen_toks": 10}


def in_text(tokens: list[int]) -> list[int]:
    """What the text shows of the generated tokens: up to the end token, no special tokens."""
    return [i for i in tokens[: tokens.index(2) if 2 in tokens else None] if i > 2]


def ids_of(run: str) -> list[int]:
    return [int(word[1:]) for word in run.split()]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_draws_what_the_slow_sampler_draws(name: str) -> None:
    lm = build(name)
    shared = ARCHITECTURES[name][2]
    assert works_with(lm) == shared
    cells = make_cells(4, 3, SETTINGS)
    found = {(c, r): run for c, r, run in sample_runs(lm, cells)}
    assert len(found) == 12
    for (place, index), run in found.items():
        expected, closest = oracle.sample(
            lm.model, prompts(4)[place], cells[place].seeds[index], 10, {"temperature": 0.8}
        )
        if closest > 1e-5:
            end = expected.index(2) if 2 in expected else 10
            assert ids_of(run) == in_text(expected)
            assert run.capture.tokens == end
            assert run.capture.finish_reason == ("stop" if 2 in expected else "length")
    assert len(set(found.values())) > 8


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1.3, "top_k": 7},
        {"temperature": 1.0, "top_k": 0, "top_p": 0.6},
        {"temperature": 0.9, "top_k": 0, "min_p": 0.1},
        {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "repetition_penalty": 1.4},
    ],
    ids=str,
)
def test_every_warp_in_the_loop(llama: HFLM, settings: dict[str, Any]) -> None:
    cells = make_cells(3, 3, {"do_sample": True, "max_gen_toks": 8, **settings})
    for place, index, run in sample_runs(llama, cells):
        expected, closest = oracle.sample(
            llama.model, prompts(3)[place], cells[place].seeds[index], 8, settings
        )
        if closest > 1e-5:
            assert ids_of(run) == in_text(expected)


def rows_of(cells: list[Cell], count: int) -> list[list[Row]]:
    return [
        [
            Row(place, index, seed, ids, 10)
            for index, seed in zip(cell.run_indices, cell.seeds, strict=True)
        ]
        for place, (cell, ids) in enumerate(zip(cells, prompts(count), strict=True))
    ]


def decoded(
    lm: HFLM, rows: int, leave: bool = True, until: tuple[str, ...] = ()
) -> dict[tuple[int, int], tuple[list[int], str | None]]:
    cells = make_cells(9, 5, SETTINGS)
    plan = Plan(decoding(lm, {**SETTINGS, "until": list(until)}), top=5)
    over = list(decode(lm, rows_of(cells, 9), plan, rows, leave))
    assert len(over) == 45
    assert all(len(row.trace) == len(row.tokens) for row in over)
    return {(row.cell, row.index): (row.tokens, row.reason) for row in over}


def test_capacity_and_leaving_rows_change_nothing(llama: HFLM) -> None:
    # Half of all words stop a run, so that rows leave and prompts join at every step.
    until = tuple(f"w{i}" for i in range(100, 200))
    alone = decoded(llama, 1, until=until)
    assert len({len(tokens) for tokens, _ in alone.values()}) > 3
    for rows, leave in ((5, True), (8, True), (8, False), (64, True)):
        assert decoded(llama, rows, leave, until) == alone


def test_the_models_own_cache_gives_the_same_runs(
    llama: HFLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = decoded(llama, 8)
    monkeypatch.setattr("lmrel_tasks.sampling.decode.works_with", lambda lm: False)
    assert decoded(llama, 8) == shared


def test_a_prompt_is_stored_once_for_all_its_rows(llama: HFLM) -> None:
    cache = SharedPrefix(llama)
    cache.admit(list(range(3, 103)), 50)
    cache.admit([5, 6], 50)
    cache.step([7] * 100)
    keys = cache._prefix[0][0]
    assert keys.shape[0] == 2 and keys.shape[2] == 100
    cache.keep(list(range(50, 60)))
    assert cache._prefix[0][0].shape[::2] == (1, 2)
    assert cache.step([8] * 10).shape == (10, VOCABULARY)


def test_out_of_memory_halves_the_rows_and_keeps_the_runs(
    llama: HFLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = decoded(llama, 64)
    step, most = SharedPrefix.step, []

    def short_of_memory(self: SharedPrefix, tokens: list[int]) -> torch.Tensor:
        if len(tokens) > 7:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        most.append(len(tokens))
        return step(self, tokens)

    monkeypatch.setattr(SharedPrefix, "step", short_of_memory)
    assert decoded(llama, 64) == expected
    assert max(most) == 5


def test_out_of_memory_with_one_row_is_raised(llama: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(self: SharedPrefix, tokens: list[int]) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(SharedPrefix, "step", no_memory)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        decoded(llama, 4)


@pytest.mark.parametrize("k", [1, 4, 30, 2000])
@pytest.mark.parametrize("distribution", ["raw", "sampling"])
def test_capture_equals_the_full_distribution(llama: HFLM, k: int, distribution: Any) -> None:
    settings = {"temperature": 0.6, "top_k": 12, "repetition_penalty": 1.2}
    cells = make_cells(
        2,
        2,
        {"do_sample": True, "max_gen_toks": 6, **settings},
        top_logprobs=k,
        logprobs=distribution,
    )
    for place, _, run in sample_runs(llama, cells):
        ids, rows = prompts(2)[place], []
        generated = ids_of(run)
        for token in generated:
            logits = oracle.logits_after(llama.model, ids)
            if distribution == "sampling":
                logits = oracle.processors(settings)(torch.tensor([ids]), logits)
            chosen = float(logits.double().log_softmax(-1)[0, token])
            candidates = min(k, int(torch.isfinite(logits).sum()))
            rows.append((*oracle.reduced(logits[0], k), chosen, candidates))
            ids = [*ids, token]
        entropy, certainty, tail, chosen, candidates = np.array(rows).T
        capture = run.capture
        assert capture.tokens == len(generated)
        found = [capture.entropy, capture.certainty, capture.tail_mass, capture.logprob]
        wanted = [entropy.mean(), certainty.mean(), tail.mean(), chosen.sum()]
        np.testing.assert_allclose(found, wanted, atol=1e-4)
        assert capture.top_k == candidates.mean()


def test_nothing_is_captured_unless_asked(llama: HFLM) -> None:
    (_, _, run), *_ = sample_runs(llama, make_cells(1, 2, SETTINGS))
    assert set(run.capture.to_dict()) == {"seed", "tokens", "finish_reason"}


def test_greedy_runs_are_alike_and_certain_in_the_sampling_distribution(llama: HFLM) -> None:
    for settings in ({"do_sample": False}, {"do_sample": True, "temperature": 0.0}):
        cells = make_cells(
            1, 3, {**settings, "max_gen_toks": 5}, top_logprobs=4, logprobs="sampling"
        )
        runs = [run for _, _, run in sample_runs(llama, cells)]
        assert len(set(runs)) == 1
        assert runs[0].capture.entropy == 0.0
        assert runs[0].capture.certainty == 1.0
        assert runs[0].capture.top_k == 1.0


def test_rows_of_one_prompt_stay_together(llama: HFLM) -> None:
    lm = build("llama")
    for size, runs, expected in ((1, 10, 10), (1, 500, 64), (8, 3, 8), (300, 500, 300)):
        lm.batch_size_per_gpu = size
        assert capacity(lm, runs) == expected
    lm.batch_size_per_gpu, lm.max_batch_size = "auto", 48
    assert capacity(lm, 3) == 48


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"num_beams": 4}, "num_beams"),
        ({"penalty_alpha": 0.6}, "penalty_alpha"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size"),
        ({"temprature": 0.5}, "temprature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_gen_toks": 0}, "max_gen_toks"),
        ({"max_gen_toks": 200}, "max_gen_toks"),
        ({"max_length": 3}, "max_length"),
    ],
)
def test_settings_that_cannot_be_honoured_are_named(
    llama: HFLM, settings: dict[str, Any], name: str
) -> None:
    with pytest.raises(ValueError, match=name):
        list(sample_runs(llama, make_cells(2, 2, {**SETTINGS, **settings})))


def test_neutral_and_harmless_settings_pass(llama: HFLM) -> None:
    more = {"num_beams": 1, "use_cache": True, "no_repeat_ngram_size": 0, "early_stopping": True}
    more["until"] = None
    plain = list(sample_runs(llama, make_cells(1, 3, SETTINGS)))
    assert list(sample_runs(llama, make_cells(1, 3, {**SETTINGS, **more}))) == plain


def test_unset_top_k_is_what_generate_would_use(llama: HFLM) -> None:
    assert decoding(llama, {"do_sample": True, "temperature": 0.5}).warp.top_k == 50
    assert decoding(llama, {"do_sample": True, "top_k": None}).warp.top_k == 0
    llama.model.generation_config.top_k = 9
    try:
        assert decoding(llama, {"do_sample": True}).warp.top_k == 9
    finally:
        llama.model.generation_config.top_k = None


def test_max_length_counts_prompt_and_text(llama: HFLM) -> None:
    cells = make_cells(3, 2, {**SETTINGS, "max_gen_toks": 50, "max_length": 20})
    for place, _, run in sample_runs(llama, cells):
        if run.capture.finish_reason == "length":
            assert run.capture.tokens == 20 - len(prompts(3)[place])


def test_an_encoder_decoder_is_refused(llama: HFLM) -> None:
    lm = build("llama")
    lm.backend = "seq2seq"
    with pytest.raises(ValueError, match="decoder-only"):
        list(sample_runs(lm, make_cells(1, 2, SETTINGS)))


def test_all_end_tokens_of_the_model_end_a_run(llama: HFLM) -> None:
    before = llama.model.generation_config.eos_token_id
    llama.model.generation_config.eos_token_id = [2, *range(100, 300)]
    try:
        runs = [run for _, _, run in sample_runs(llama, make_cells(4, 4, SETTINGS))]
    finally:
        llama.model.generation_config.eos_token_id = before
    stopped = [run for run in runs if run.capture.finish_reason == "stop"]
    assert len(stopped) > 8
    assert not any(100 <= i < 300 for run in stopped for i in ids_of(run)[: run.capture.tokens])
    assert all(run.capture.tokens <= 9 for run in stopped)


def test_long_runs_use_one_stream_of_draws() -> None:
    row, stream = Row(0, 0, 5, [1], 1000), uniforms(5, 300)
    for expected in stream:
        assert row.uniform() == expected
        row.tokens.append(3)
