"""The README: its code runs, its numbers are those of the committed results."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


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


def speed():
    """What importance and a step cost, from speed.json."""
    rows = json.loads((ROOT / "results/speed/speed.json").read_text())["rows"]

    def ratio(measure, network, contestant):
        found = [
            row["ratio"]
            for row in rows
            if row["measure"] == measure
            and row["network"] == network
            and contestant in row["contestant"]
        ]
        return f"{found[0]:.2f}" if found[0] < 3 else f"{found[0]:.0f}"

    lines = [
        "| against a plain loop on the same samples | MLP | Tiny v2 | AlexNet |",
        "|---|---|---|---|",
    ]
    for text, measure, contestant in (
        ("**exact importance, ours**", "importance", "taskfree"),
        ("exact importance, one sample at a time", "importance", "one sample"),
        ("exact importance, `torch.func.vmap`", "importance", "vmap"),
        ("**a step of the full method, ours**", "step", "taskfree"),
    ):
        cells = [ratio(measure, network, contestant) for network in ("MLP", "Tiny v2", "AlexNet")]
        lines.append("| " + " | ".join([text, *cells]) + " |")
    return "\n".join(lines) + "\n"


WRITTEN = {"results": table, "speed": speed}


def block(name):
    return re.compile(rf"(<!-- {name}: [^>]*-->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def test_the_code_runs():
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("name", WRITTEN)
def test_the_numbers_are_those_of_the_results(name):
    found = block(name).search(README.read_text())
    assert found
    assert found[2].strip() == WRITTEN[name]().strip()


def test_the_pictures_and_links_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_it_fits_what_the_makefile_does():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


if __name__ == "__main__" and "--write" in sys.argv:
    text = README.read_text()
    for name, make in WRITTEN.items():
        text = block(name).sub(lambda found, make=make: found[1] + make() + found[3], text)
    README.write_text(text)
