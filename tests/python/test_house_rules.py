"""What holds for every file of the project, whatever it is about."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}
NOT_OURS = {".git", ".venv", "build", "runs", "__pycache__", ".pytest_cache"}
NOT_OURS |= {".ruff_cache", "compile_commands.json"}
MOST_LINES = 400


def project_files() -> list[Path]:
    """Every file of the project, whether or not it lies in a git checkout."""
    found = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = sorted(set(subfolders) - NOT_OURS)
        found += [Path(folder, name) for name in sorted(names)]
    return found


def texts() -> list[tuple[str, str]]:
    """Relative path and content; a file that is not UTF-8 fails right here."""
    return [(str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in project_files()]


def lines_matching(pattern: str, keep=lambda path: True) -> list[str]:
    compiled = re.compile(pattern)
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts()
        if keep(path)
        for number, line in enumerate(text.split("\n"), 1)
        if compiled.search(line)
    ]


def test_no_source_file_is_long():
    long_files = [
        f"{path}: {text.count(chr(10))} lines, at most {MOST_LINES} are allowed"
        for path, text in texts()
        if Path(path).suffix in CODE and text.count("\n") > MOST_LINES
    ]
    assert not long_files, "\n".join(long_files)


def test_headers_name_no_namespace_to_use():
    found = lines_matching(r"^\s*using\s+namespace\b", lambda path: path.endswith(".h"))
    assert not found, "\n".join(found)


def test_headers_are_guarded():
    unguarded = [
        path
        for path, text in texts()
        if path.endswith(".h") and "#pragma once" not in text and "HWY_TARGET_TOGGLE" not in text
    ]
    assert not unguarded


def test_nothing_is_left_for_later():
    found = lines_matching(r"\b(TO[D]O|FI[X]ME)\b")
    assert not found, "\n".join(found)


def test_no_path_of_a_machine_is_in_the_project():
    found = lines_matching(r"(?<![\w.])/(?:work|root|home|Users)/")
    assert not found, "\n".join(found)


@pytest.fixture
def program() -> Path:
    installed = Path(sys.executable).parent / "headwise"
    assert installed.exists(), "the program is not installed: run scripts/setup"
    return installed


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs").glob("*.toml")), ids=lambda file: file.name
)
def test_a_shipped_configuration_is_valid(program, file):
    run = subprocess.run([program, "config", file], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_a_broken_configuration_is_not(program, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("[train]\nsead = 1\n")
    run = subprocess.run([program, "config", broken], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "train.sead" in run.stderr
    assert "train.seed" in run.stderr


@pytest.mark.parametrize(
    "script", sorted((ROOT / "scripts").iterdir()), ids=lambda script: script.name
)
def test_a_script_can_be_run(script):
    if script.is_file() and script.suffix == "":
        assert script.stat().st_mode & 0o111, "not executable"
        subprocess.run([shutil.which("bash"), "-n", script], check=True)
