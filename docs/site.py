"""What the site needs besides the pages: the results, figures and examples that they point to.

On the pages, and where the repository shows them, links go up and out of this folder. Here the
files come into the site, and the links to them lose their way up. And examples in docstrings are
shown as code.
"""

import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = ("results", "examples")
ENDS = (".png", ".json", ".py")


def on_files(files, config):
    """Take in what lies beside the docs."""
    for folder in OUTSIDE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDS:
                name = path.relative_to(ROOT).as_posix()
                files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, **_):
    """Point to where they are now."""
    return re.sub(rf"\]\(\.\./({'|'.join(OUTSIDE)})/", r"](\1/", markdown)


class Examples(griffe.Extension):
    """Puts fences around the examples in docstrings."""

    def on_object(self, *, obj, **_):
        """Look at what was found in the source."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text):
    """A docstring whose examples, each up to the next empty line, stand between fences."""
    return re.sub(
        r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.DOTALL
    )
