"""Bundles: what is in them, that they verify, that no change and no hostile file passes."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lmrel_tasks.bundling import build
from lmrel_tasks.cli import main
from lmrel_tasks.leaderboard import boards, contestants_of, group_letters
from lmrel_tasks.recomputing import Check
from lmrel_tasks.results import find_evaluations
from lmrel_tasks.unbundling import unpack
from lmrel_tasks.verification import status, verify
from tests.result_folders import write_results
from tests.saved_results import ITEMS, evaluation, save, unsteady, word_embedder

METRICS = [
    {"metric": name}
    for name in (
        "acc", "semantic_repeatability", "semantic_reproducibility", "answer_agreement",
        "internal_repeatability", "internal_stability", "tar_answer", "tar_raw", "mode_acc",
        "reliability_level", "reliability_lower", "prediction_set_size", "empty_rate",
    )
] + [
    {"metric": "coverage", "alpha": 0.2},
    {"metric": "var_item"},
    {"metric": "semantic_entropy", "name": "renamed"},
    {"metric": "var_run", "of": "correctness", "name": "var_run_correctness"},
    {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True},
]  # fmt: skip
FILTERS = [
    {
        "name": "none",
        "filter": [{"function": "answer", "kind": "numeric"}, {"function": "embed"}],
    }
]
CONDITIONS = {
    "lmrel": {"conditions": [{"name": "plain"}, {"name": "terse", "description": "Short: "}]}
}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return evaluation(
        tmp_path_factory.mktemp("raw"), "m", "numbers", ITEMS, unsteady(0.5),
        filter_list=FILTERS, metric_list=METRICS, metadata={"version": 1, **CONDITIONS},
    )  # fmt: skip


@pytest.fixture(scope="module")
def saved(raw: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from copy import deepcopy

    folder = tmp_path_factory.mktemp("saved")
    save(deepcopy(raw), folder, "org/one")
    return folder


@pytest.fixture(scope="module")
def bundle(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "one.zip"
    build([saved], path)
    return path


def judged(path: Path) -> tuple[int, list[Check]]:
    with word_embedder():
        found = verify(path)
    return status(found), [one for one in found if one.verdict != "equal"]


def repacked(
    bundle: Path, target: Path, edit: Callable[[str, bytes], bytes | None], rehash: bool = True
) -> Path:
    """The bundle with its files changed, the manifest made to fit."""
    with zipfile.ZipFile(bundle) as archive:
        pieces = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(pieces.pop("manifest.json"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, piece in pieces.items():
            changed = edit(name, piece)
            if changed is None:
                continue
            archive.writestr(name, changed)
            if rehash:
                digest = hashlib.sha256(changed).hexdigest()
                manifest["files"][name] = {"sha256": digest, "bytes": len(changed)}
        archive.writestr("manifest.json", json.dumps(manifest))
    return target


def in_results(change: Callable[[dict[str, Any]], None]) -> Callable[[str, bytes], bytes]:
    def edit(name: str, piece: bytes) -> bytes:
        if "/results_" not in name:
            return piece
        content = json.loads(piece)
        change(content)
        return json.dumps(content).encode()

    return edit


def in_sample(
    change: Callable[[dict[str, Any]], None], at: int = 3
) -> Callable[[str, bytes], bytes]:
    def edit(name: str, piece: bytes) -> bytes:
        if "/samples_" not in name:
            return piece
        lines = piece.decode().splitlines()
        content = json.loads(lines[at])
        change(content)
        lines[at] = json.dumps(content, ensure_ascii=False)
        return "\n".join(lines).encode() + b"\n"

    return edit


# What is in it ---------------------------------------------------------------------------------


def test_bundle_verifies_every_metric_of_the_results(bundle: Path, saved: Path) -> None:
    with word_embedder():
        found = verify(bundle)
    assert status(found) == 0
    row = find_evaluations([saved])[0].content["results"]["numbers"]
    metrics = {key for key in row if "," in key and "_stderr," not in key}
    by_name = {one.what: one.verdict for one in found if one.task == "numbers"}
    assert metrics <= set(by_name)
    assert {by_name[name] for name in metrics} == {"equal"}
    assert {"acc@terse,none", "var_run_correctness,none", "exact_match,none"} <= metrics
    assert {"answers", "labels", "texts", "prompt hashes", "hash of all items"} <= set(by_name)


def test_manifest_names_versions_seeds_and_hashes(bundle: Path, tmp_path: Path) -> None:
    unpacked = unpack(bundle, tmp_path)
    manifest = unpacked.manifest
    assert not unpacked.problems
    assert manifest["packages"]["lm_eval"] and manifest["packages"]["lmrel"]
    (entry,) = manifest["evaluations"]
    assert entry["model"] == "org/one" and entry["seeds"]["torch_seed"] == 1234
    for name, said in manifest["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == said["sha256"]
    lines = (tmp_path / entry["runs"]).read_text().splitlines()
    assert len(lines) == 1 + 12 * 2 * 4  # items, conditions, runs
    seeds = {line.split(",")[5] for line in lines[1:]}
    assert len(seeds) == 12 * 2 * 4


def test_same_results_give_the_same_bytes(saved: Path, bundle: Path, tmp_path: Path) -> None:
    build([saved], tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()


def test_early_stopping_verifies(tmp_path: Path) -> None:
    results = evaluation(
        tmp_path, "m", "stopped", ITEMS, unsteady(0.5), repeats=8,
        filter_list=FILTERS,
        metric_list=[{"metric": m} for m in ("acc", "semantic_repeatability", "reliability_level",
                                             "samples_used")],
        metadata={"version": 1, "lmrel": {"stopping": "curtail"}},
    )  # fmt: skip
    save(results, tmp_path / "out", "m")
    build([tmp_path / "out"], tmp_path / "b.zip")
    code, rest = judged(tmp_path / "b.zip")
    assert (code, rest) == (0, [])


@pytest.mark.parametrize(
    ("before", "after", "code"), [([], ["lowercase"], 0), (["lowercase"], [], 0)]
)
def test_stock_filters_around_the_embedding_verify(
    before: list[str], after: list[str], code: int, tmp_path: Path
) -> None:
    names = ["answer", *before, "embed", *after]
    results = evaluation(
        tmp_path, "m", "around", ITEMS, lambda p, r: f"It Is {r % 3} or it is {r % 2}", repeats=4,
        filter_list=[{"name": "none", "filter": [{"function": name} for name in names]}],
        metric_list=[{"metric": "semantic_repeatability"}],
    )  # fmt: skip
    save(results, tmp_path / "out", "m")
    build([tmp_path / "out"], tmp_path / "b.zip")
    assert judged(tmp_path / "b.zip") == (code, [])


def test_missing_samples_are_named_with_their_remedy(saved: Path, tmp_path: Path) -> None:
    source = next(saved.rglob("results_*.json"))
    (tmp_path / source.name).write_bytes(source.read_bytes())
    with pytest.raises(FileNotFoundError, match="--log_samples"):
        build([tmp_path], tmp_path / "b.zip")
    assert not list(tmp_path.glob("*.zip")) and not list(tmp_path.glob(".*"))


def test_half_written_samples_are_refused(saved: Path, tmp_path: Path, capsys: Any) -> None:
    for source in next(saved.rglob("results_*.json")).parent.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    samples, target = next(tmp_path.glob("samples_*")), tmp_path / "b.zip"
    lines = samples.read_bytes().splitlines(keepends=True)
    for kept in ([*lines[:-1], lines[-1][:50]], lines[:-3], []):
        samples.write_bytes(b"".join(kept))
        assert main(["bundle", str(tmp_path), "-o", str(target)]) == 2
        number = min(len(kept), 11) if kept else 0
        said = capsys.readouterr().err
        assert f"{samples}: {number} readable lines of filter none, {len(lines)} expected" in said
        assert not list(tmp_path.glob("*.zip")) and not list(tmp_path.glob(".*"))
    samples.write_bytes(b"".join([*lines, lines[0][:50]]))
    assert main(["bundle", str(tmp_path), "-o", str(target)]) == 0, "all items are there"
    results = next(tmp_path.glob("results_*.json"))
    content = json.loads(results.read_text())
    results.write_text(json.dumps({**content, "n-samples": {}}))
    samples.write_bytes(b"".join([*lines[:-1], lines[-1][:50]]))
    assert main(["bundle", str(tmp_path), "-o", str(target)]) == 2


def test_a_filter_without_any_sample_is_refused(tmp_path: Path) -> None:
    config = {"filter_list": [{"name": "none", "filter": []}, {"name": "two", "filter": []}]}
    path = write_results(tmp_path, "m", {"acc": [1.0, 0.0]}, config=config)
    with pytest.raises(ValueError, match="0 readable lines of filter two, 2 expected"):
        build([path], tmp_path / "b.zip")


# Changes ---------------------------------------------------------------------------------------


def add(row: dict[str, Any], key: str, by: float) -> None:
    row[key] += by


def test_group() -> None:
    """A group's value that is not the mean of its tasks is found (no samples needed)."""
    from lmrel_tasks.recomputing import _group
    from lmrel_tasks.results import Evaluation

    content = {
        "results": {
            "a": {"acc,none": 0.2, "sample_len": 10},
            "b": {"acc,none": 0.8, "sample_len": 30},
        },
        "group_subtasks": {"g": ["a", "h"], "h": ["b"]},
        "groups": {"g": {"acc,none": 0.65, "acc_stderr,none": 0.1}},
    }
    one = Evaluation(Path("results_x.json"), "x", content)
    assert [check.verdict for check in _group(one, "g")] == ["equal"]
    content["groups"]["g"]["acc,none"] = 0.5  # by task instead of by size: the harness has both
    assert [check.verdict for check in _group(one, "g")] == ["equal"]
    content["groups"]["g"]["acc,none"] = 0.66
    assert [check.verdict for check in _group(one, "g")] == ["differs"]


CHANGES: dict[str, tuple[Callable[[str, bytes], Any], str]] = {
    "value": (
        in_results(lambda c: add(c["results"]["numbers"], "acc,none", 1e-6)), "acc,none"
    ),
    "semantic value": (
        in_results(lambda c: add(c["results"]["numbers"], "semantic_repeatability,none", 1e-3)),
        "semantic_repeatability,none",
    ),
    "standard error": (
        in_results(lambda c: add(c["results"]["numbers"], "acc_stderr,none", -1e-4)), "acc,none"
    ),
    "value of one condition": (
        in_results(lambda c: add(c["results"]["numbers"], "acc@terse,none", 0.01)),
        "acc@terse,none",
    ),
    "metric's arguments": (
        in_results(lambda c: c["configs"]["numbers"]["metric_list"][13].update(alpha=0.5)),
        "coverage,none",
    ),
    "value of an item": (in_sample(lambda s: s.update(answer_agreement=0.99)),
                         "answer_agreement,none"),
    "answer of a run": (
        in_sample(lambda s: s["lmrel"]["runs"][0][0].update(answer="77")), "answers"
    ),
    "label": (in_sample(lambda s: s["lmrel"].update(labels=["4"])), "labels"),
    "target": (in_sample(lambda s: s.update(target="4")), "target hashes"),
    "text of a run": (
        in_sample(lambda s: s["filtered_resps"][0].__setitem__(0, "It is 3 indeed")), "texts"
    ),
    "text everywhere": (
        in_sample(lambda s: [s[key][0].__setitem__(0, "It is 99")
                             for key in ("resps", "filtered_resps")]),
        "answers",
    ),
    "certainty of a run": (
        in_sample(lambda s: s["lmrel"]["runs"][0][0].update(certainty=0.95)),
        "internal_repeatability,none",
    ),
    "document": (in_sample(lambda s: s["doc"].update(question="Number 5?")), "document hashes"),
    "prompt": (
        in_sample(lambda s: s["arguments"]["gen_args_0"].update(arg_0="Other")), "prompt hashes"
    ),
    "a line less": (
        lambda name, piece: piece[piece.index(b"\n") + 1 :] if "/samples_" in name else piece,
        "number of items",
    ),
    "runs.csv": (
        lambda name, piece: piece.replace(b",stop,", b",length,", 1) if "runs" in name else piece,
        "runs.csv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_is_found_although_the_hashes_fit(
    change: str, bundle: Path, tmp_path: Path
) -> None:
    edit, expected = CHANGES[change]
    code, rest = judged(repacked(bundle, tmp_path / "changed.zip", edit))
    assert code == 1
    assert expected in {one.what for one in rest if one.verdict == "differs"}


def test_changed_missing_and_added_files_are_found(bundle: Path, tmp_path: Path) -> None:
    other = repacked(
        bundle, tmp_path / "a.zip",
        in_results(lambda c: c.update(git_hash="0")), rehash=False,
    )  # fmt: skip
    code, rest = judged(other)
    assert code == 1 and "SHA-256" in rest[0].note
    without = repacked(bundle, tmp_path / "b.zip", lambda n, p: None if "runs" in n else p)
    code, rest = judged(without)
    assert code == 1 and any(one.note == "missing" for one in rest)
    with zipfile.ZipFile(other, "a") as archive:
        archive.writestr("extra.txt", "x")
    assert any("not named" in problem for problem in unpack(other, tmp_path / "x").problems)


def test_what_cannot_be_judged_is_status_2(bundle: Path, tmp_path: Path) -> None:
    def foreign(content: dict[str, Any]) -> None:
        content["configs"]["numbers"]["filter_list"][0]["filter"][1]["model"] = "someone/model"

    code, rest = judged(repacked(bundle, tmp_path / "foreign.zip", in_results(foreign)))
    assert code == 2
    assert {one.what for one in rest} == {
        f"{name},none" for name in (
            "semantic_repeatability", "semantic_repeatability@plain",
            "semantic_repeatability@terse", "semantic_reproducibility", "var_item",
        )
    }  # fmt: skip
    assert all("--embedder" in one.note for one in rest)
    odd = repacked(
        bundle, tmp_path / "odd.zip",
        in_results(lambda c: c["configs"]["numbers"].update(metadata={"lmrel": {"nonsense": 1}})),
    )  # fmt: skip
    assert judged(odd)[0] == 2


def test_command_line(bundle: Path, saved: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "b.zip"
    assert main(["bundle", str(saved), "-o", str(path)]) == 0
    with word_embedder():
        assert main(["verify", str(path)]) == 0
        assert "VERIFIED" in capsys.readouterr().out
        changed = repacked(path, tmp_path / "c.zip", CHANGES["value"][0])
        assert main(["verify", str(changed)]) == 1
        assert "differs" in capsys.readouterr().out
    (tmp_path / "no.zip").write_bytes(b"PK nothing")
    assert main(["verify", str(tmp_path / "no.zip")]) == 2
    assert main(["verify", str(tmp_path / "absent.zip")]) == 2


# Hostile bundles -------------------------------------------------------------------------------


def crafted(
    path: Path, entries: dict[str, bytes], said: dict[str, int] | None = None, mode: int = 0
) -> Path:
    files = {
        name: {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": (said or {}).get(name, len(raw))}
        for name, raw in entries.items()
    }
    manifest = {"format": "lmrel-bundle", "version": 1, "files": files, "evaluations": []}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, raw in entries.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            archive.writestr(info, raw)
    return path


@pytest.mark.parametrize(
    "name",
    ["../out", "a/../../out", "/tmp/out", "..\\out", "C:\\out", "C:/out", "a/./b", "a\nb"],
)
def test_names_that_leave_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "deep" / "inside"
    inside.mkdir(parents=True)
    with pytest.raises(ValueError, match="unsafe file name"):
        unpack(crafted(tmp_path / "b.zip", {name: b"x"}), inside)
    assert not any(inside.iterdir()) and not (tmp_path / "deep" / "out").exists()


def test_links_doubles_and_bombs_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    link = crafted(tmp_path / "link.zip", {"a": b"/etc/passwd"}, mode=0o120777)
    with pytest.raises(ValueError, match="no plain file"):
        unpack(link, folder)
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(crafted(tmp_path / "twice.zip", {"a": b"x"}), "a") as archive,
    ):
        archive.writestr("a", b"y")
    with pytest.raises(ValueError, match="twice"):
        unpack(tmp_path / "twice.zip", folder)
    bomb = crafted(tmp_path / "bomb.zip", {"a": bytes(80 << 20)})
    assert bomb.stat().st_size < 200_000
    with pytest.raises(ValueError, match="zip bomb"):
        unpack(bomb, folder)
    large = crafted(tmp_path / "large.zip", {"a": bytes(1 << 20)})
    with pytest.raises(ValueError, match="--max-gb"):
        unpack(large, folder, max_bytes=1 << 19)
    assert not any(folder.iterdir())


def test_no_more_is_written_than_the_manifest_says(tmp_path: Path) -> None:
    path = crafted(tmp_path / "b.zip", {"a": bytes(5 << 20)}, said={"a": 100})
    unpacked = unpack(path, tmp_path / "inside")
    assert (tmp_path / "inside" / "a").stat().st_size <= 101
    assert len(unpacked.problems) == 1


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'{"format": "lmrel-bundle", "files": 3}',
                                      b"[" * 100_000])  # fmt: skip
def test_other_zip_files_are_refused(manifest: bytes, tmp_path: Path) -> None:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("manifest.json", manifest)
    (tmp_path / "b.zip").write_bytes(raw.getvalue())
    with pytest.raises(ValueError, match="not one of a bundle"):
        unpack(tmp_path / "b.zip", tmp_path / "inside")


# Leaderboard -----------------------------------------------------------------------------------


def test_letters_are_shared_exactly_by_pairs_that_are_not_apart() -> None:
    import itertools
    import random

    draw = random.Random(5)
    names = list("pqrstuv")
    for _ in range(50):
        apart = {
            frozenset(pair) for pair in itertools.combinations(names, 2) if draw.random() < 0.4
        }
        letters = group_letters(names, apart)
        for pair in itertools.combinations(names, 2):
            share = bool(set(letters[pair[0]]) & set(letters[pair[1]]))
            assert share == (frozenset(pair) not in apart)
    assert group_letters(list("xyz"), {frozenset("xz")}) == {"x": "a", "y": "ab", "z": "b"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Bundles of a good model, its equal, and a bad one with a hostile name."""
    folder = tmp_path_factory.mktemp("three")
    items = [{"question": f"Number {i}?", "answer": str(i)} for i in range(40)]
    paths = []
    for name, model, wrong in (
        ("good", "org/good", 0.3), ("equal", "org/equal", 0.32),
        ("bad", "<script>alert(1)</script>|x", 1.1),
    ):  # fmt: skip
        results = evaluation(
            folder / name, model, "numbers", items, unsteady(wrong),
            filter_list=[{"name": "none", "filter": [{"function": "answer", "kind": "numeric"}]}],
            metric_list=[{"metric": "acc"}, {"metric": "answer_agreement"}],
        )  # fmt: skip
        save(results, folder / name / "out", model)
        paths.append(folder / f"{name}.zip")
        build([folder / name / "out"], paths[-1])
    return paths


def test_ranking_groups_what_is_not_separable(three: list[Path], tmp_path: Path) -> None:
    found = {path.stem: unpack(path, tmp_path / path.stem).evaluations() for path in three}
    first, second = boards(contestants_of(found), {"good": "yes"})
    assert (first.metric, second.metric) == ("acc", "answer_agreement")
    names = [one.name for one in first.standings]
    assert names[2].startswith("<script>") and set(names[:2]) == {"org/good", "org/equal"}
    assert [one.rank for one in first.standings] == [1, 1, 3]
    groups = [one.group for one in first.standings]
    assert groups[0] == groups[1] != groups[2]
    for one in first.standings:
        assert one.ci_low < one.value < one.ci_high and one.n == 40
    assert {one.name: one.verified for one in first.standings}["org/good"] == "yes"


def test_pages(three: list[Path], tmp_path: Path, capsys: Any) -> None:
    bundles = [str(path) for path in three]
    for name in ("index.html", "board.md"):
        assert main(["leaderboard", *bundles, "-o", str(tmp_path / name)]) == 0
        text = (tmp_path / name).read_text()
        assert "<script>" not in text and "alert(1)" in text
    assert "default-src 'none'" in (tmp_path / "index.html").read_text()
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1  # one width of table
    changed = repacked(three[0], tmp_path / "c.zip", CHANGES["value"][0])
    one = tmp_path / "one.md"
    assert main(["leaderboard", str(changed), bundles[1], "-o", str(one)]) == 1
    assert "left out" in one.read_text() and "org/good" not in one.read_text()
    assert main(["leaderboard", bundles[0], "-o", "x.pdf"]) == 2


# The harness's own loggers ---------------------------------------------------------------------


def test_results_fit_the_harness_schema(raw: dict[str, Any]) -> None:
    from lm_eval import result_schema
    from pydantic import TypeAdapter

    known = set(result_schema.EvalResults.__annotations__)
    assert set(raw) <= known
    counts: Any = TypeAdapter(dict[str, result_schema._SampleCount])
    counts.validate_python(raw["n-samples"], strict=True)
    directions: Any = TypeAdapter(dict[str, dict[str, bool | None]])
    directions.validate_python(raw["higher_is_better"], strict=True)
    for row in raw["results"].values():
        assert isinstance(row["name"], str) and isinstance(row["alias"], str)
        assert type(row["sample_len"]) is int
        metrics = {key: value for key, value in row.items() if "," in key}
        assert len(metrics) > 30
        assert all(type(v) in (int, float) or v == "N/A" for v in metrics.values())
    fixed = set(result_schema.SampleResult.__annotations__)
    for sample in raw["samples"]["numbers"]:
        assert fixed <= set(sample)
        assert all(type(sample[name]) in (int, float) or sample[name] is None
                   or isinstance(sample[name], float) for name in sample["metrics"])  # fmt: skip


def test_samples_load_as_a_dataset(saved: Path) -> None:
    """As the viewer of a hub repository loads them."""
    import datasets

    path = next(saved.rglob("samples_*.jsonl"))
    rows = datasets.load_dataset("json", data_files=str(path), split="train")
    assert len(rows) == 12
    assert rows[0]["lmrel"]["conditions"] == ["plain", "terse"]
    assert rows[0]["lmrel"]["runs"][1][3]["seed"] > 0


def test_hub_upload_sends_the_files_as_they_are(raw: dict[str, Any], tmp_path: Path) -> None:
    from copy import deepcopy

    from lm_eval.loggers import EvaluationTracker

    sent: list[tuple[str, str, dict[str, Any]]] = []

    def record(name: str) -> Callable[..., None]:
        return lambda **kwargs: sent.append((name, kwargs["repo_id"], kwargs))

    tracker = EvaluationTracker(output_path=str(tmp_path))
    tracker.general_config_tracker.log_experiment_args("x", "pretrained=m", None, None, False)
    tracker.api = SimpleNamespace(
        create_repo=record("create"), upload_file=record("file"), upload_folder=record("folder")
    )
    tracker.push_results_to_hub = tracker.push_samples_to_hub = True
    tracker.results_repo = tracker.details_repo = "org/repo"
    tracker.public_repo, tracker.gated_repo = True, False
    results = deepcopy(raw)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task_name="numbers", samples=samples["numbers"])
    kinds = [name for name, _, _ in sent]
    assert "file" in kinds and "folder" in kinds
    uploaded = next(kwargs for name, _, kwargs in sent if name == "file")
    assert json.loads(Path(uploaded["path_or_fileobj"]).read_text())["results"]["numbers"]


def test_wandb_logger_formats_our_results(
    raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.loggers.wandb_logger import WandbLogger

    class Table:
        def __init__(self, columns: list[str] | None = None, dataframe: Any = None) -> None:
            self.rows: list[Any] = []

        def add_data(self, *row: Any) -> None:
            self.rows.append(row)

    class Artifact:
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def new_file(self, *args: Any, **kwargs: Any) -> io.StringIO:
            return io.StringIO()

    logged: dict[str, Any] = {}
    run = SimpleNamespace(
        config=SimpleNamespace(update=lambda *a, **k: None), summary={},
        log=lambda content, step=None: logged.update(content),
        log_artifact=lambda artifact: None,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Table=Table, Artifact=Artifact))
    logger = WandbLogger.__new__(WandbLogger)
    logger.run, logger.step, logger.printer = run, None, SimpleNamespace(display=print)
    results = dict(raw)
    samples = results.pop("samples")
    logger.post_init(results)
    logger.log_eval_result()
    assert logged["numbers/acc"] == raw["results"]["numbers"]["acc,none"]
    assert len(logged["evaluation/eval_results"].rows) > 20
    logger.log_eval_samples(samples)
    assert "numbers_eval_results" in logged
    frame = logger._generate_dataset(samples["numbers"], raw["configs"]["numbers"])
    assert len(frame) == 12 and frame["raw_predictions"][0].startswith("It is")


def test_trackio_logger_formats_our_results(raw: dict[str, Any]) -> None:
    from lm_eval.loggers.trackio_logger import TrackioLogger

    logged: list[dict[str, Any]] = []
    trackio = SimpleNamespace(
        Trace=lambda messages, metadata: {"messages": messages, "metadata": metadata},
        log=lambda content, step=None: logged.append(content), config={},
    )  # fmt: skip
    logger = TrackioLogger.__new__(TrackioLogger)
    logger._trackio, logger.step = trackio, None
    results = dict(raw)
    samples = results.pop("samples")
    logger.post_init(results)
    logger.log_eval_result()
    logger.log_eval_samples(samples)
    assert logged[0]["numbers/acc"] == raw["results"]["numbers"]["acc,none"]
    traces = [one["numbers/sample"] for one in logged[1:]]
    assert len(traces) == 12
    assert json.dumps(traces[0]["metadata"])
