"""A trainer's checkpoint folder: which one is meant, and whether it is whole."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

__all__ = ["resolve_checkpoint", "verify"]

MANIFEST = "manifest.json"
FORMAT_VERSION = 1


def resolve_checkpoint(path: str | os.PathLike[str]) -> Path:
    """Give the checkpoint folder that `path` means, links followed.

    Args:
        path: a checkpoint, or a run's folder: then its `best`, else `last`, else the newest
            `step-N`.

    Raises:
        FileNotFoundError: if there is nothing at `path`.
        ValueError: if there is no checkpoint in it.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such folder")
    steps = [p for p in path.glob("step-*") if re.fullmatch(r"step-(0|[1-9]\d*)", p.name)]
    steps.sort(key=lambda p: int(p.name[5:]), reverse=True)
    for folder in (path, path / "best", path / "last", *steps):
        if (folder / MANIFEST).is_file():
            # The folder, not the link: a run in progress may turn the link while files are read.
            return folder.parent / folder.readlink() if folder.is_symlink() else folder
    raise ValueError(
        f"{path}: found no checkpoint; needed a folder with {MANIFEST}, or one with best, last or "
        "step-N folders"
    )


def verify(checkpoint: Path) -> None:
    """Compare every file of a checkpoint with the size and SHA-256 in its manifest.

    Raises:
        FileNotFoundError, ValueError: naming the file and what is wrong with it.
    """
    manifest = checkpoint / MANIFEST
    for name, row in _files_of(manifest).items():
        _verify_file(manifest, name, row)


def _files_of(manifest: Path) -> dict[str, Any]:
    try:
        content = json.loads(manifest.read_text("utf-8"))
    except ValueError as error:  # of the JSON, or of the UTF-8
        raise ValueError(f"{manifest}: damaged: this is not JSON: {error}") from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise ValueError(f"{manifest}: damaged: found no format_version")
    if version != FORMAT_VERSION:
        newer = ": a newer one has written it" if version > FORMAT_VERSION else ""
        raise ValueError(
            f"{manifest}: found format_version {version}; this Headwise reads "
            f"{FORMAT_VERSION}{newer}"
        )
    files = content.get("files")
    if not isinstance(files, dict) or not files:
        raise ValueError(f"{manifest}: damaged: lists no files")
    return files


def _verify_file(manifest: Path, name: str, row: Any) -> None:
    """Check one file against its row of the manifest."""
    row = row if isinstance(row, dict) else {}
    size, digest = row.get("bytes"), row.get("sha256")
    if not isinstance(size, int) or not isinstance(digest, str):
        raise ValueError(f"{manifest}: damaged: the row of {name!r} needs bytes and sha256")
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{manifest}: damaged: the row of {name!r} is not a file of this folder")
    path = manifest.parent / name
    if not path.is_file():
        raise FileNotFoundError(f"{path}: damaged: there is no such file; its manifest lists it")
    found = path.stat().st_size
    if found != size:
        raise ValueError(f"{path}: damaged: found {found} bytes; its manifest says {size}")
    if _sha256(path) != digest:
        raise ValueError(
            f"{path}: damaged: its bytes are not those the manifest was made of (SHA-256)"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
