"""A trainer's checkpoint as a Python model."""

import os
from pathlib import Path

import torch
from torch import Tensor

from headwise.checkpoint import resolve_checkpoint, verify
from headwise.model_config import read_config
from headwise.subword import Subword
from headwise.translation import TranslationModel

__all__ = ["load"]

_MOST_COMPLAINTS = 4


def load(
    model: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> TranslationModel:
    """Read a checkpoint of the program `headwise` into a PyTorch model, in evaluation mode.

    Every file is compared with the SHA-256 in the checkpoint's manifest first. Load only
    checkpoints that you trust. Needs the packages safetensors and sentencepiece.

    Args:
        model: a run's folder (its `best` checkpoint, else `last`, else the newest `step-N`) or any
            checkpoint folder.
        device: of the parameters; default: the CPU.
        dtype: of the parameters; default: as in the file, float32.

    Raises:
        FileNotFoundError, ValueError: naming the file, what was found and what is needed.
        ImportError: naming a package that is absent.
    """
    folder = resolve_checkpoint(model)
    verify(folder)
    config, translation = read_config(folder / "config.toml")
    source = Subword(folder / "source.spm")
    separate = (folder / "target.spm").exists()
    target = Subword(folder / "target.spm") if separate else source
    file = folder / "model.safetensors"
    weights = _read_weights(file)
    with torch.device("meta"):  # takes neither memory nor random numbers
        result = TranslationModel(config, translation, source, target)
    _check_weights(file, weights, result.state_dict())
    result.load_state_dict(weights, assign=True)
    return result.to(device=device, dtype=dtype).eval()


def _read_weights(file: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ModuleNotFoundError:
        raise ImportError(
            "headwise.load needs the package safetensors: pip install safetensors"
        ) from None
    try:
        return load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file}: damaged: {error}") from error


def _check_weights(file: Path, found: dict[str, Tensor], needed: dict[str, Tensor]) -> None:
    complaints = [f"surplus tensor {name}" for name in found.keys() - needed.keys()]
    for name, tensor in needed.items():
        if name not in found:
            complaints.append(f"missing tensor {name}")
        elif found[name].shape != tensor.shape:
            shapes = (list(found[name].shape), list(tensor.shape))
            complaints.append(f"{name}: found {shapes[0]}, needed {shapes[1]}")
        elif not found[name].is_floating_point():
            complaints.append(f"{name}: found {found[name].dtype}, needed floating point")
    if complaints:
        shown = "".join(f"\n  {complaint}" for complaint in complaints[:_MOST_COMPLAINTS])
        more = len(complaints) - _MOST_COMPLAINTS
        shown += f"\n  … and {more} more" if more > 0 else ""
        raise ValueError(f"{file} does not fit the configured model:{shown}")
