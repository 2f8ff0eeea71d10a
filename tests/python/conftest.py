"""What every Python test may rely on."""

from pathlib import Path

import pytest
import torch
from hypothesis.configuration import set_hypothesis_home_dir

# What hypothesis notes about the sources is not part of them.
set_hypothesis_home_dir(Path(__file__).parents[2] / "build" / "hypothesis")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(20240607)
