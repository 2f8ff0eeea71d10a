"""A side under another interpreter, so with another torch, driven through pipes.

`RemoteWorker` is this end; the module run as a program is the other one. A request and its answer
are one line of JSON each. Only the asked side computes; the other one waits.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.cases import Case
from bench.worker import LocalWorker, Prepared

__all__ = ["RemoteWorker"]

_SETTLE = 0.01  # seconds in which the other side's idle threads stop spinning


class RemoteWorker:
    """The SDPA side in a child process of the given interpreter."""

    def __init__(self, python: str, clock: str = "wall") -> None:
        root = str(Path(__file__).resolve().parents[1])
        self._child = subprocess.Popen(
            [python, "-m", "bench.peer", clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        hello = self._ask(do="hello")
        self.torch_version: str = hello["torch"]
        self.capability: str = hello["capability"]

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._child.stdin and self._child.stdout
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"the peer ended with exit code {self._child.wait()}")
        values = json.loads(answer)
        if "error" in values:
            raise RuntimeError(values["error"])
        return values

    def prepare(self, case: Case, threads: int) -> Prepared:
        """Make the inputs and the forms; the previous case is forgotten."""
        answer = self._ask(do="prepare", case=case.to_dict(), threads=threads)
        return Prepared(**answer)

    def digest(self, form: str) -> list[list[float]]:
        """Run once and return samples of output and gradients."""
        return self._ask(do="digest", form=form)["digest"]

    def time(self, form: str, runs: int) -> float:
        """Seconds one run takes, mean of `runs` in a row."""
        time.sleep(_SETTLE)
        seconds = self._ask(do="time", form=form, runs=runs)["seconds"]
        time.sleep(_SETTLE)
        return seconds

    def close(self) -> None:
        """End the child."""
        if self._child.stdin:
            self._child.stdin.close()
        self._child.wait()


def _answer(worker: LocalWorker, request: dict[str, Any]) -> dict[str, Any]:
    import torch

    match request["do"]:
        case "hello":
            capability = torch.backends.cpu.get_cpu_capability()
            return {"torch": str(torch.__version__), "capability": capability}
        case "prepare":
            prepared = worker.prepare(Case.from_dict(request["case"]), request["threads"])
            return prepared._asdict()
        case "digest":
            return {"digest": worker.digest(request["form"])}
        case "time":
            return {"seconds": worker.time(request["form"], request["runs"])}
    raise ValueError(f"unknown request {request['do']}")


def _serve(clock: str) -> None:
    """Answer until the pipe closes; whatever else prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from bench import sdpa

    worker = LocalWorker(sdpa.variants, clock)
    for line in sys.stdin:
        try:
            answer = _answer(worker, json.loads(line))
        except (RuntimeError, ValueError, TypeError, LookupError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
