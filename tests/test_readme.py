"""The README: its code runs, its numbers are those of the committed results."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- results: [^>]*-->\n)(.*?)(<!-- end of results -->)", re.DOTALL)


def table():
    """The settings of the paper and the extras, from results.json."""
    results = json.loads((ROOT / "results/synthetic/results.json").read_text())
    lines = ["| | both quadrants | first | second |", "|---|---|---|---|"]
    for row in results["summary"]:
        if " at " in row["setting"]:
            continue
        cells = [row[column] for column in ("total", "first quadrant", "second quadrant")]
        numbers = [f"{100 * mean:.1f} ± {100 * spread:.1f}" for mean, spread in cells]
        bold = "**" if row["setting"] == "online continual" else ""
        lines.append(
            "| " + " | ".join(f"{bold}{cell}{bold}" for cell in (row["setting"], *numbers)) + " |"
        )
    return "\n".join(lines) + "\n"


def test_the_code_runs():
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})


def test_the_numbers_are_those_of_the_results():
    found = BLOCK.search(README.read_text())
    assert found
    assert found[2].strip() == table().strip()


def test_the_pictures_and_links_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_it_fits_what_the_makefile_does():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


if __name__ == "__main__" and "--write" in sys.argv:
    README.write_text(BLOCK.sub(lambda found: found[1] + table() + found[3], README.read_text()))
