"""Runs clang-tidy on the files of a build folder, skipping what passed before unchanged.

    clang_tidy.py BUILD_DIR [--all]

Without --all only csrc/ and src/ are looked at, with it the tests too. A file that passed leaves an
empty file in build/clang_tidy, named by a hash of everything that could change the verdict: the
checks, the compile command, the file and every project header it reaches.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSED = ROOT / "build" / "clang_tidy"
# Clang cannot read a precompiled header of gcc; without it a file must include all that it uses.
PRECOMPILED = re.compile(r" -fpch-preprocess| -Winvalid-pch| -include \S+/cmake_pch\.hxx")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def reached_files(source):
    """The source and every project file it includes, directly or not."""
    reached, pending = set(), [source]
    while pending:
        file = pending.pop()
        if file in reached or not file.exists():
            continue
        reached.add(file)
        included = INCLUDE.findall(file.read_text())
        pending += [ROOT / name for name in included] + [file.parent / name for name in included]
    return sorted(reached)


def verdict_key(entry, version):
    """Names the verdict on one file: equal keys, equal verdicts."""
    digest = hashlib.sha256()
    for part in (version, entry["command"], (ROOT / ".clang-tidy").read_text()):
        digest.update(part.encode() + b"\0")
    for file in reached_files(pathlib.Path(entry["file"])):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def check(entry, version):
    """Returns what clang-tidy complains about; an empty text when nothing."""
    marker = PASSED / verdict_key(entry, version)
    if marker.exists():
        return ""
    run = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(PASSED), entry["file"]],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 0:
        marker.touch()
        return ""
    return run.stdout or run.stderr


def compile_commands(build, folders):
    """The commands of the sources in `folders`, also written where clang-tidy will read them."""
    entries = [
        entry | {"command": PRECOMPILED.sub("", entry["command"])}
        for entry in json.loads((build / "compile_commands.json").read_text())
        if any(pathlib.Path(entry["file"]).is_relative_to(ROOT / folder) for folder in folders)
    ]
    PASSED.mkdir(parents=True, exist_ok=True)
    (PASSED / "compile_commands.json").write_text(json.dumps(entries))
    return entries


def main(arguments):
    """Checks every file and returns the exit code."""
    build = ROOT / arguments[0]
    folders = ["csrc", "src"] + (["tests"] if "--all" in arguments else [])
    entries = compile_commands(build, folders)
    version = subprocess.run(
        ["clang-tidy", "--version"], capture_output=True, text=True, check=True
    ).stdout
    jobs = int(subprocess.run([ROOT / "scripts" / "job_count"], stdout=-1, check=True).stdout)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        complaints = list(pool.map(lambda entry: check(entry, version), entries))
    for complaint in filter(None, complaints):
        print(complaint)
    failed = sum(map(bool, complaints))
    print(f"clang-tidy: {len(entries)} files, {failed} with complaints")
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
