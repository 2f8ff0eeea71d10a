"""What the documentation shows of the C++ package is what the test of the package builds."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(language: str) -> list[str]:
    text = (ROOT / "docs" / "cpp.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("language", "file"), [("cmake", "CMakeLists.txt"), ("cpp", "main.cpp")])
def test_the_project_shown_is_the_project_built(language, file):
    assert blocks(language) == [(ROOT / "tests" / "consumer" / file).read_text()]


def test_the_readme_shows_the_same_project_file():
    assert (ROOT / "tests/consumer/CMakeLists.txt").read_text() in (ROOT / "README.md").read_text()
