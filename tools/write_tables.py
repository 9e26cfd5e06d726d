"""Write the tables of README and docs from the committed results.

`python tools/write_tables.py` writes them; the tests check that they are up to date.
"""

import re

from tables import library, methods, paper, tables
from tables.markdown import ROOT

DOCS = ROOT / "docs"
TABLES = {
    "results": (DOCS / "paper.md", library.three_experiments),
    "synthetic": (DOCS / "method.md", paper.synthetic),
    "speed": (DOCS / "speed.md", library.speed_targets),
    "default step": (DOCS / "speed.md", library.default_step),
    "reliability": (DOCS / "reliability.md", library.reliability),
    "triggers": (DOCS / "triggers.md", library.trigger_scores),
    "means": (DOCS / "triggers.md", library.trigger_means),
    "targets": (DOCS / "triggers.md", library.trigger_targets),
    "readme methods": (ROOT / "README.md", methods.readme),
    "methods": (DOCS / "methods.md", methods.means),
    "methods by stream": (DOCS / "methods.md", methods.by_stream),
    "methods peers": (DOCS / "methods.md", methods.peers),
    "teacher": (DOCS / "methods.md", methods.teacher),
    "methods short": (DOCS / "methods.md", methods.short),
    "tables of classes": (DOCS / "learn.md", tables.classes),
    "tables of numbers": (DOCS / "learn.md", tables.numbers),
    "tables short": (DOCS / "learn.md", tables.short),
    "rows": (DOCS / "learn.md", library.rows_per_second),
    "streams": (DOCS / "learn.md", library.real_streams),
    "adapters": (DOCS / "adapters.md", library.adapters),
    "claims": (DOCS / "paper.md", paper.claims),
    "expert": (DOCS / "corridors.md", paper.expert),
    "recording": (DOCS / "corridors.md", paper.recording),
    "four": (DOCS / "corridors.md", lambda: paper.corridors("corridors")),
    "ten": (DOCS / "corridors.md", lambda: paper.corridors("corridors10")),
    "corridor targets": (DOCS / "corridors.md", paper.corridor_targets),
    "times": (DOCS / "corridors.md", paper.corridor_times),
    "arena": (DOCS / "arena.md", paper.arena),
    "tv": (DOCS / "tv.md", paper.tv),
    "tv targets": (DOCS / "tv.md", paper.tv_targets),
    "tv settings": (DOCS / "tv.md", paper.tv_settings),
}
"""By name: the page of a table, and the function that makes it."""


def block(name):
    """A pattern for the place of a table on its page."""
    return re.compile(rf"(<!-- {name}: [^>]*-->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def main():
    """Write every table."""
    for name, (page, make) in TABLES.items():
        text = block(name).sub(
            lambda found, make=make: found[1] + make() + found[3], page.read_text()
        )
        page.write_text(text)


if __name__ == "__main__":
    main()
