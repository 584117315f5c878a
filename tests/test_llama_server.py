"""The API backend against a real server: llama.cpp's, with SmolLM2.

Needs the extra ``server`` (llama-cpp-python, which compiles for some minutes); skipped without it.

The GGUF file is served with its weights dequantised to float32. From quantised weights llama.cpp
computes with 8-bit activations, which moves the entropy of a token by up to 0.07 bit: a property
of its kernels that would hide an error of ours of the same size.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

import lmrel_tasks.sampling.api
import lmrel_tasks.sampling.hf  # noqa: F401  registers the local route
from lmrel_tasks.identity import cell_key, model_identity, run_key
from lmrel_tasks.sampling import Cell, run_seed, sample_runs
from lmrel_tasks.sampling.api_facts import server_facts
from lmrel_tasks.store import Store

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason="llama-cpp-python is not installed; pip install 'lmrel[server]'",
)

STATES = ("France", "Italy", "Spain", "Japan", "Egypt", "Canada")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def dequantise(source: Path, target: Path) -> None:
    """Write the GGUF file `source` with all weights as float32."""
    import gguf

    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(target), reader.get_field("general.architecture").contents())
    own = ("general.architecture", "general.file_type", "general.quantization_version")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in own:
            continue  # the writer writes its own
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        weights = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def address(smollm_gguf, tmp_path_factory):
    port = free_port()
    folder = tmp_path_factory.mktemp("server")
    log, weights = folder / "log", folder / "float32.gguf"
    dequantise(smollm_gguf, weights)
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(weights)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048"]
    command += ["--logits_all", "true", "--n_threads", "1"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        deadline = time.monotonic() + 180
        while not answers(f"{url}/models"):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, "the server did not start within 180 s"
            time.sleep(0.3)
        yield url
    finally:
        process.terminate()
        process.wait(30)
        weights.unlink()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


def model(address, chat=False, **options):
    options = dict(model="smollm2", tokenizer_backend=None, num_concurrent=2) | options
    if chat:
        return LocalChatCompletion(base_url=f"{address}/chat/completions", **options)
    return LocalCompletionsAPI(base_url=f"{address}/completions", **options)


def cells_of(chat=False, items=2, runs=3, first=0, top_logprobs=10, **generation):
    # The server's own defaults (penalty, top_p...) are no part of a comparison.
    plain = {"repeat_penalty": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": 0}
    settings = {"until": ["\n"], "do_sample": True, "temperature": 1.0, "max_gen_toks": 8}
    cells = []
    for item in range(items):
        words = f"The capital of {STATES[item]} is"
        messages = [{"role": "user", "content": f"What is the capital of {STATES[item]}?"}]
        cells.append(
            Cell(
                prompt=JsonChatStr(json.dumps(messages)) if chat else words,
                generation=settings | plain | generation,
                run_indices=tuple(range(first, runs)),
                seeds=tuple(run_seed(3, words, "plain", run) for run in range(first, runs)),
                top_logprobs=top_logprobs,
            )
        )
    return cells


def draw(lm, cells):
    found = {}
    for cell, index, run in sample_runs(lm, cells):
        assert (cell, index) not in found
        found[cell, index] = run
    assert len(found) == sum(len(cell.run_indices) for cell in cells)
    return found


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_runs_seeds_and_logprobs(address, chat):
    lm, cells = model(address, chat), cells_of(chat)
    found = draw(lm, cells)
    facts = server_facts(lm)
    assert facts.choices == 1  # the server ignores n: each run is a request of its own
    assert facts.requests == 6
    assert len({str(run) for run in found.values()}) > 3
    for run in found.values():
        capture = run.capture
        assert not run.missing and capture.finish_reason in ("stop", "length")
        assert 0 < capture.tokens <= 8
        assert 0 <= capture.entropy <= np.log2(10)
        assert 0 <= capture.certainty <= 1
        assert 0 <= capture.tail_mass < 1
        assert capture.logprob < 0
        assert 9 <= capture.top_k <= 10  # candidates that print alike fall together here
    again = draw(model(address, chat), cells_of(chat, top_logprobs=0))
    same = [str(found[key]) == str(again[key]) for key in found]
    # One may change: the server computes a prompt that it has cached in another batch shape.
    assert sum(same) >= 5


def test_a_stored_run_is_not_asked_for_again(address, tmp_path):
    lm = model(address)
    identity = model_identity(lm)

    def key(cell, item, run):
        shared = cell_key(identity, cell.prompt, cell.generation, str(item), "plain", {"k": 10})
        return run_key(shared, run_seed(3, cell.prompt, "plain", run), run)

    first = cells_of(runs=2)
    with Store.open(tmp_path / "runs.sqlite") as store:
        for item, index, run in sample_runs(lm, first):
            store.put(key(first[item], item, index), run, {"model": identity, "task": "t"})
    before = server_facts(lm).requests
    with Store.open(tmp_path / "runs.sqlite") as store:
        wanted = {
            (item, run): key(cell, item, run) for item, cell in enumerate(first) for run in range(4)
        }
        kept = store.get_many(wanted.values())
        missing = [place for place, name in wanted.items() if name not in kept]
        assert missing == [(item, run) for item in range(2) for run in (2, 3)]
        more = draw(lm, cells_of(first=2, runs=4))
        assert sorted(more) == missing
    assert server_facts(lm).requests - before == 4


def test_entropy_agrees_with_the_local_route(address, smollm):
    """Same GGUF, greedy, k = 20: entropy within 0.02 bit per token, run by run."""
    greedy = dict(do_sample=False, temperature=0.0, max_gen_toks=8)
    served = draw(model(address), cells_of(items=5, runs=1, top_logprobs=20, **greedy))
    cells = [
        Cell(
            prompt=cell.prompt,
            generation={"until": ["\n"], "do_sample": False, "max_gen_toks": 8},
            run_indices=cell.run_indices,
            seeds=cell.seeds,
            top_logprobs=20,
        )
        for cell in cells_of(items=5, runs=1)
    ]
    local = draw(smollm, cells)  # tests/conftest.py loads the model that the GGUF dequantises to
    alike = [key for key in served if str(served[key]) == str(local[key])]
    assert len(alike) >= 4  # a near tie may part one of them
    for key in alike:
        one, other = served[key].capture, local[key].capture
        assert one.tokens == other.tokens
        assert one.finish_reason == other.finish_reason
        assert one.entropy == pytest.approx(other.entropy, abs=0.02)
        assert one.certainty == pytest.approx(other.certainty, abs=0.01)
        assert one.tail_mass == pytest.approx(other.tail_mass, abs=0.01)
        assert one.logprob == pytest.approx(other.logprob, abs=0.02 * one.tokens)
