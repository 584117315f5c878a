"""Reading bundles that may come from anyone."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmrel_tasks.bundling import FORMAT, MANIFEST, VERSION
from lmrel_tasks.results import Evaluation, find_evaluations

MAX_BYTES = 8 << 30
_MAX_FILES = 10_000
_MAX_MANIFEST = 16 << 20
# Deflate reaches 1032:1 on one repeated byte; samples compress 5:1 to 60:1.
_MAX_RATIO, _RATIO_FROM = 250, 64 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Unpacked:
    """A bundle on disk.

    Attributes:
        folder: where it lies.
        manifest: its manifest.
        problems: files that are not what the manifest says.
    """

    folder: Path
    manifest: Mapping[str, Any]
    problems: tuple[str, ...]

    def evaluations(self) -> list[Evaluation]:
        """The evaluations in it.

        Raises:
            FileNotFoundError: if there is none.
        """
        return find_evaluations([self.folder], latest=False)


def unpack(bundle: Path, folder: Path, *, max_bytes: int = MAX_BYTES) -> Unpacked:
    """Unpack a bundle that may be hostile into an empty folder, and check its hashes.

    Only files that the manifest names are written, under checked names, and never more bytes than
    it says.

    Args:
        bundle: the zip file.
        folder: an empty folder.
        max_bytes: most bytes that a bundle may unpack to.

    Raises:
        ValueError: if it is no bundle, or unsafe: names that leave the folder, links, files there
            twice, too many or too large ones, absurd compression.
        FileNotFoundError: if there is no such file.
    """
    if not bundle.is_file():
        raise FileNotFoundError(f"{bundle}: no such file")
    try:
        with zipfile.ZipFile(bundle) as archive:
            manifest = _manifest(archive, bundle)
            _check_entries(archive, bundle, manifest, max_bytes)
            problems = list(_extract(archive, manifest["files"], folder))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{bundle}: not a readable zip file ({error})") from None
    return Unpacked(folder, manifest, tuple(problems))


def _manifest(archive: zipfile.ZipFile, bundle: Path) -> dict[str, Any]:
    try:
        entry = archive.getinfo(MANIFEST)
    except KeyError:
        raise ValueError(f"{bundle}: no {MANIFEST}; make bundles with `lmrel bundle`") from None
    with archive.open(entry) as file:
        raw = file.read(_MAX_MANIFEST + 1)
    if len(raw) > _MAX_MANIFEST:
        raise ValueError(f"{bundle}: {MANIFEST} is larger than {_MAX_MANIFEST >> 20} MB")
    try:
        manifest = json.loads(raw)
        valid = manifest["format"] == FORMAT and all(
            isinstance(one["sha256"], str) and type(one["bytes"]) is int and one["bytes"] >= 0
            for one in manifest["files"].values()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(f"{bundle}: {MANIFEST} is not one of a bundle")
    if manifest.get("version") != VERSION:
        raise ValueError(f"{bundle}: bundle version {manifest.get('version')!r}, not {VERSION}")
    return dict(manifest)


def _check_entries(
    archive: zipfile.ZipFile, bundle: Path, manifest: Mapping[str, Any], max_bytes: int
) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    for name in (*names, *manifest["files"]):
        plain = re.fullmatch(r"[^\\:\x00-\x1f]+", name) is not None
        if not plain or {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"{bundle}: unsafe file name {name!r}")
    if len(entries) > _MAX_FILES:
        raise ValueError(f"{bundle}: {len(entries)} files; at most {_MAX_FILES} are read")
    if len(set(names)) < len(names):
        raise ValueError(f"{bundle}: a file is in it twice")
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or entry.flag_bits & 0x1:
            raise ValueError(f"{bundle}: {entry.filename!r} is no plain file")
    total = max(
        sum(entry.file_size for entry in entries),
        sum(one["bytes"] for one in manifest["files"].values()),
    )
    if total > max_bytes:
        raise ValueError(
            f"{bundle}: unpacks to {total / 1e9:.1f} GB, more than {max_bytes / 1e9:.1f} GB; "
            "allow more with --max-gb"
        )
    packed = max(1, sum(entry.compress_size for entry in entries))
    if total > _RATIO_FROM and total / packed > _MAX_RATIO:
        raise ValueError(f"{bundle}: compressed {total / packed:.0f}:1; refused as a zip bomb")


def _extract(
    archive: zipfile.ZipFile, files: Mapping[str, Mapping[str, Any]], folder: Path
) -> Iterator[str]:
    present = {entry.filename: entry for entry in archive.infolist()}
    for name in present:
        if name not in files and name != MANIFEST:
            yield f"{name}: not named by the manifest"
    for name, said in files.items():
        if name not in present:
            yield f"{name}: missing"
            continue
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        state, size = hashlib.sha256(), 0
        try:
            with archive.open(present[name]) as source, place.open("wb") as out:
                # One byte more than promised is enough to know, and no more is ever written.
                while block := source.read(min(_BLOCK, said["bytes"] + 1 - size)):
                    state.update(block)
                    size += len(block)
                    out.write(block)
                    if size > said["bytes"]:
                        break
        except zipfile.BadZipFile as error:
            yield f"{name}: damaged ({error})"
            continue
        if size != said["bytes"] or state.hexdigest() != said["sha256"]:
            yield f"{name}: its content is not what the manifest says (SHA-256)"
