"""The command line of scripts/bench. Torch is imported only once the arguments are known."""

import argparse
import os
import sys
from pathlib import Path

from bench.forms import FORMS
from bench.targets import TARGETS, restart_with

ROOT = Path(__file__).resolve().parents[1]


def _thread_counts(text: str) -> list[int]:
    counts = sorted({int(x) for x in text.split(",")})
    if min(counts) < 1:
        raise ValueError(text)
    return counts


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--case", default="", metavar="TEXT", help="only cases whose name contains this")
    add("--threads", type=_thread_counts, default=[1], metavar="N[,N]", help="default: 1")
    add("--repeats", type=int, default=7, metavar="N", help="readings a side (at least 5)")
    add("--json", type=Path, metavar="FILE", help="write everything measured")
    add("--target", choices=sorted(TARGETS), help="hold both sides to this instruction set")
    add(
        "--allocator",
        choices=["default", "tuned"],
        default="default",
        help="tuned: freed memory is kept, on both sides",
    )
    add(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: processor time of one thread, for tuning on a busy machine",
    )


def _add_attention(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "attention", help="the attention op against torch's scaled_dot_product_attention"
    )
    _add_common(command)
    add = command.add_argument
    add("--list", action="store_true", help="name the cases and stop")
    add("--quick", action="store_true", help="5 short readings: for tuning, not for claims")
    add("--peer", metavar="PYTHON", help="interpreter whose torch is compared with")
    add("--memory", action="store_true", help="peak extra memory instead of time")
    add("--length", type=int, default=16384, metavar="T", help="of --memory")


def _add_loss(commands: argparse._SubParsersAction) -> None:
    _add_common(
        commands.add_parser(
            "loss", help="the fused output layer and cross-entropy against torch's, whole scores"
        )
    )


def _add_train(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "train", help="the trainer against eager PyTorch training the same model"
    )
    add = command.add_argument
    add("config", nargs="?", type=Path, default=ROOT / "configs" / "quickstart.toml")
    add("--set", nargs="+", default=[], metavar="KEY=VALUE", help="as of headwise train")
    add("--threads", type=_thread_counts, default=[1], metavar="N[,N]", help="default: 1")
    add("--updates", type=int, default=60, metavar="N", help="of one reading, a multiple of 20")
    add("--repeats", type=int, default=5, metavar="N", help="readings a side (at least 5)")
    add("--forms", nargs="+", choices=sorted(FORMS), default=list(FORMS), help="of the peer")
    add("--peer", metavar="PYTHON", help="interpreter whose torch is compared with")
    add("--target", choices=sorted(TARGETS), help="hold both sides to this instruction set")
    add("--json", type=Path, metavar="FILE", help="write everything measured")


def _add_translate(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "translate", help="headwise translate against CTranslate2 on the same weights"
    )
    add = command.add_argument
    add("model", type=Path, help="a run's folder or a checkpoint")
    add("source", type=Path, help="text to translate, plain or gzip")
    add("--case", default="", metavar="TEXT", help="only cases whose name contains this")
    add("--threads", type=_thread_counts, default=[1], metavar="N[,N]", help="default: 1")
    add("--repeats", type=int, default=5, metavar="N", help="readings a side (at least 5)")
    add("--json", type=Path, metavar="FILE", help="write everything measured")


def _add_quality(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "quality", help="BLEU of trained models on Multi30k, and what training them took"
    )
    add = command.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="folder that headwise train wrote")
    add("--data", type=Path, required=True, metavar="DIR", help="as of scripts/get_multi30k")
    add("--tests", action="store_true", help="also the test sets; choose on validation")
    add("--ensemble", action="store_true", help="also all runs together, as one model")
    add("--checkpoint", default="best", metavar="NAME", help="of each run; default: best")
    add("--length-penalty", type=float, metavar="X", help="default: the run's")
    add("--note", default="", metavar="TEXT", help="kept beside each run, as: stopped early")
    add("--append", type=Path, metavar="FILE", help="add everything to a file of JSON lines")


def main() -> int:
    """Read the command line and run the command."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    _add_attention(commands)
    _add_loss(commands)
    _add_train(commands)
    _add_translate(commands)
    _add_quality(commands)
    options = parser.parse_args()
    if options.command == "quality":
        from bench import quality

        return quality.run(options)
    if options.repeats < 5:
        parser.error(f"--repeats {options.repeats}: at least 5 are needed for a spread")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # no word about accelerators not found
    if options.command in ("train", "translate"):
        from bench import train, translate

        if options.command == "train" and (options.updates < 1 or options.updates % train.WARM_UP):
            parser.error(f"--updates {options.updates}: a multiple of {train.WARM_UP} is needed")
        return {"train": train, "translate": translate}[options.command].run(options)
    if options.clock == "cpu" and options.threads != [1]:
        parser.error("--clock cpu adds up what all threads take: it needs --threads 1")
    if options.command == "attention" and options.peer and options.memory:
        parser.error(
            "--memory measures this interpreter's torch; start it with PYTHON=FILE instead"
        )
    if options.target or options.allocator == "tuned":
        restart_with(options.target, options.allocator == "tuned")
    from bench import attention, loss

    return {"attention": attention, "loss": loss}[options.command].run(options)


if __name__ == "__main__":
    sys.exit(main())
