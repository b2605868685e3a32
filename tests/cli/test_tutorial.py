"""The tutorial: its code runs and prints the given output, and its links and figures exist."""

import contextlib
import io
import re

import pytest
from support.runs import REPOSITORY, load_script

TUTORIAL = REPOSITORY / "docs/attention.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)

figures = load_script("docs/figures")


def run(text):
    """Run the code blocks of a text in one namespace; returns the printed and the expected output of each."""
    found, namespace = [], {}
    for block in BLOCK.finditer(text):
        printed = io.StringIO()
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block[1], TUTORIAL.name, "exec")  # so that errors give the line of the text
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        found.append((printed.getvalue(), block[2] or ""))
    return found


def test_code_prints_the_expected_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = TUTORIAL.read_text(encoding="utf-8")
    found = run(text)
    assert len(found) == text.count("```python") and sum("```text" in line for line in text.splitlines()) == sum(
        bool(expected) for _, expected in found
    )
    for printed, expected in found:
        assert printed == expected
    assert not list(tmp_path.iterdir())


def test_blocks_share_a_namespace_and_errors_are_raised():
    text = "One.\n\n```python\na = 1\nprint(a)\n```\n\n```text\n2\n```\n\nTwo.\n\n```python\nassert a == {}\n```\n"
    assert run(text.format(1)) == [("1\n", "2\n"), ("", "")]
    with pytest.raises(AssertionError) as error:
        run(text.format(2))
    assert error.traceback[-1].lineno + 1 == 15


def test_links():
    """Linked files and sections exist, and every figure of the script is shown."""
    text = TUTORIAL.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 10
    for link in links:
        path, _, section = link.partition("#")
        file = TUTORIAL.parent / path
        assert file.is_file(), link
        if section:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert section in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings], link
    assert {f"attention/{name}.png" for name in figures.FIGURES} <= set(links)
    assert "](docs/attention.md)" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_figures_are_drawn(tmp_path, capsys):
    assert figures.main(["--out", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(figures.FIGURES)
    drawn = {file.name: file for file in tmp_path.iterdir()}
    assert sorted(drawn) == sorted(f"{name}.png" for name in figures.FIGURES)
    for name, file in drawn.items():
        assert file.read_bytes().startswith(b"\x89PNG") and 5_000 < file.stat().st_size < 150_000, name
        assert (TUTORIAL.parent / "attention" / name).stat().st_size < 150_000
