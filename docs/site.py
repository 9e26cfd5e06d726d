"""What the site needs besides the pages in this folder.

Links to results, figures and examples lead up and out of it: here the files come into the site, and
the links to them lose their way up. Every name on the API page gets a page of its own. Examples in
docstrings are shown as code.
"""

import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = ("results", "examples")
ENDS = (".png", ".json", ".py")
OBJECT = re.compile(r"^::: (\S+)$", flags=re.MULTILINE)
"""A line of api.md that names a public object."""


def on_config(config):
    """Add the page of every public name to the navigation, under the headings of api.md."""
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    sections = re.findall(r"^## ([^:\n]+).*\n([^#]+)", _api(), flags=re.MULTILINE)
    pages = [{title: [_page(path) for path in OBJECT.findall(body)]} for title, body in sections]
    reference[reference.index({"API": "api.md"})] = {"API": ["api.md", *pages]}
    return config


def on_files(files, config):
    """Take in what lies beside the docs, and a page for every public name."""
    for folder in OUTSIDE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDS:
                name = path.relative_to(ROOT).as_posix()
                files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in OBJECT.findall(_api()):
        content = f"::: {path}\n    options:\n      heading_level: 1\n"
        files.append(File.generated(config, _page(path), content=content))
    return files


def on_page_markdown(markdown, page, **_):
    """Point to where the files are now; on the API page, to the page of each name."""
    if page.file.src_path == "api.md":
        package = griffe.load("taskfree", search_paths=[ROOT / "src"])

        def link(found):
            path = found[1].removeprefix("taskfree.")
            summary = package[path].docstring.value.partition("\n")[0]
            name = path.rpartition(".")[2]
            return f"- [`{name}`]({_page(path)}): {summary}"

        return OBJECT.sub(link, markdown)
    return re.sub(rf"\]\(\.\./({'|'.join(OUTSIDE)})/", r"](\1/", markdown)


def _api():
    return (ROOT / "docs/api.md").read_text()


def _page(path):
    return f"api/{path.rpartition('.')[2]}.md"


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
