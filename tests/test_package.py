"""The package as a whole: what importing it does, its names, and who may import whom."""

import ast
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

import taskfree

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FILES = sorted(SOURCE.rglob("*.py"))
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def python(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def module_name(file):
    """The dotted name of a source file's module."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}
TOP = {name for name in MODULES if name.count(".") == 1} - {"taskfree.__main__"}


# Importing


def test_importing_taskfree_alone_does_not_import_torch():
    code = "import sys, taskfree; print(' '.join(sys.modules))"
    loaded = set(python(code).split())
    assert "taskfree" in loaded
    assert not {name for name in loaded if name.startswith(("torch", "safetensors", "taskfree."))}


def test_the_public_names_load_torch_and_safetensors_and_nothing_else():
    code = (
        "import sys, torch, safetensors; before = set(sys.modules);"
        "from taskfree import *; import taskfree.checks;"
        "assert Learner and MAS and checkpoint;"
        "print(' '.join({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    third_party = set(python(code).split()) - set(sys.stdlib_module_names)
    assert third_party == {"taskfree", "safetensors"}


def test_the_public_names_load_only_the_core():
    code = (
        "import sys; from taskfree import *;"
        "print(' '.join(name for name in sys.modules if name.startswith('taskfree.')))"
    )
    loaded = {".".join(name.split(".")[:2]) for name in python(code).split()}
    core = "_core _learner checkpoint defaults how learner observe when which"
    assert loaded == {f"taskfree.{name}" for name in core.split()}


def test_importing_has_no_side_effects():
    code = (
        "import torch; torch.manual_seed(3); threads = torch.get_num_threads();"
        "random = torch.get_rng_state(); import logging; handlers = list(logging.root.handlers);"
        "from taskfree import *; import taskfree.cli;"
        "assert torch.equal(random, torch.get_rng_state());"
        "assert threads == torch.get_num_threads() and handlers == logging.root.handlers;"
        "assert torch.get_default_dtype() == torch.float32"
    )
    assert python(code) == ""


# Names


def test_the_public_names_exist_and_are_few():
    assert len(taskfree.__all__) <= 22
    assert sorted(set(taskfree.__all__)) == sorted(taskfree.__all__)
    for name in taskfree.__all__:
        assert getattr(taskfree, name) is not None
        assert name in dir(taskfree)
    with pytest.raises(AttributeError, match="module 'taskfree' has no attribute 'Trainer'"):
        taskfree.Trainer  # noqa: B018


def test_every_name_in_an_all_exists():
    """Read without importing, because some modules need extras."""
    for name, file in MODULES.items():
        if name == "taskfree":
            continue
        tree = ast.parse(file.read_text())
        bound = {alias.asname or alias.name for node in ast.walk(tree)
                 if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                bound.add(node.name)
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            bound |= {target.id for target in targets if isinstance(target, ast.Name)}
        for public in declared_all(tree):
            assert public in bound, f"{name}.__all__ names {public}"


def declared_all(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for name, file in MODULES.items():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def private(name):
    return name.startswith("_") and not name.endswith("__") and name not in ("_core", "_learner")


def private_uses(code, module):
    """The private names of other taskfree modules that a module imports or reaches into."""
    tree, found, modules = ast.parse(code), [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "taskfree":
                    found += [alias.name] if any(map(private, alias.name.split("."))) else []
                    modules[alias.asname or "taskfree"] = alias.name if alias.asname else "taskfree"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "taskfree":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found += [full] if any(map(private, full.split("."))) else []
                if full in MODULES:
                    modules[alias.asname or alias.name] = full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            chain, root = [node.attr], node.value
            while isinstance(root, ast.Attribute):
                chain, root = [root.attr, *chain], root.value
            if isinstance(root, ast.Name) and root.id in modules:
                full = ".".join([modules[root.id], *chain])
                owner = next(".".join(full.split(".")[:size])
                             for size in range(full.count(".") + 1, 0, -1)
                             if ".".join(full.split(".")[:size]) in MODULES)  # fmt: skip
                # beyond the module, an attribute of one of its objects is that object's affair
                if full == f"{owner}.{node.attr}" and owner != module:
                    found.append(full)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_no_module_uses_a_private_name_of_another(module):
    assert private_uses(MODULES[module].read_text(), module) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from taskfree.how.mas import _x", ["taskfree.how.mas._x"]),
        ("from taskfree._core.batch import _x", ["taskfree._core.batch._x"]),
        ("import taskfree.how.mas\ntaskfree.how.mas._x()", ["taskfree.how.mas._x"]),
        ("import taskfree._hidden", ["taskfree._hidden"]),
        ("import taskfree.how.mas as m\nm._x", ["taskfree.how.mas._x"]),
        ("from taskfree.how import mas\nmas._x = 1", ["taskfree.how.mas._x"]),
        ("from taskfree.how import mas as m\nprint(m._x.y)", ["taskfree.how.mas._x"]),
        ("from taskfree._core import batch\nbatch.rows", []),
        ("from taskfree._core.batch import rows\nself._x", []),
        ("from taskfree import __version__\nfrom torch import _C", []),
        ("import taskfree._core.batch\ntaskfree._core.batch.rows", []),
    ],
)
def test_the_search_for_private_names_finds_them(code, expected):
    assert private_uses(code, "taskfree.learner") == expected


def test_no_source_file_is_longer_than_350_lines():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in FILES}
    assert len(lengths) > 100
    assert {file: lines for file, lines in lengths.items() if lines > 350} == {}


# The architecture: the contracts of import-linter in pyproject.toml


def broken_contracts(folder):
    """Run lint-imports on a package below `folder`; the names of the contracts that it breaks."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo",
         "--config", ROOT / "pyproject.toml"],
        cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "300"},
    )  # fmt: skip
    results = dict(re.findall(r"^(.*) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert results.keys() == {contract["name"] for contract in CONTRACTS}, done.stdout + done.stderr
    broken = {name for name, result in results.items() if result == "BROKEN"}
    assert done.returncode == (1 if broken else 0)
    return broken


def layers(contract):
    """The modules of each layer, the highest first."""
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def named_modules():
    """Every module that a contract names."""
    for contract in CONTRACTS:
        for key in ("layers", "modules", "source_modules", "forbidden_modules"):
            for entry in contract.get(key, ()):
                yield from (name.strip() for name in entry.split("|"))


def tiny_package(folder, importer=None, imported=None):
    """A package with all modules that the contracts name, which are empty but for one import."""
    for name in named_modules():
        path = folder
        for part in name.split("."):
            path /= part
            path.mkdir(exist_ok=True)
            (path / "__init__.py").touch()
    if importer is not None:
        file = folder.joinpath(*importer.split("."), "__init__.py")
        file.write_text(f"import {imported}\n")


def forbidden_imports():
    """By contract: each import that it forbids. Of two layers apart, only neighbours."""
    for contract in CONTRACTS:
        name = contract["name"]
        if contract["type"] == "layers":
            for upper, lower in itertools.pairwise(layers(contract)):
                yield from ((name, low, high) for low in lower for high in upper)
            for layer in layers(contract):
                yield from ((name, *pair) for pair in itertools.permutations(layer, 2))
        elif contract["type"] == "independence":
            yield from ((name, *pair) for pair in itertools.permutations(contract["modules"], 2))
        else:
            pairs = itertools.product(contract["source_modules"], contract["forbidden_modules"])
            yield from ((name, *pair) for pair in pairs)


def test_the_package_keeps_every_contract():
    assert broken_contracts(SOURCE) == set()


def test_a_tiny_package_keeps_every_contract(tmp_path):
    """The control: without an added import, nothing is broken."""
    tiny_package(tmp_path)
    assert broken_contracts(tmp_path) == set()
    assert {contract["type"] for contract in CONTRACTS} == {"layers", "forbidden", "independence"}


@pytest.mark.parametrize(("contract", "importer", "imported"), list(forbidden_imports()))
def test_each_forbidden_import_breaks_its_contract(contract, importer, imported, tmp_path):
    tiny_package(tmp_path, importer, imported)
    assert contract in broken_contracts(tmp_path)


def test_an_import_downwards_breaks_no_contract(tmp_path):
    tiny_package(tmp_path, "taskfree.learner", "taskfree.when")
    assert broken_contracts(tmp_path) == set()


def test_the_contracts_name_every_part_of_the_package():
    by_type = {contract["type"]: contract for contract in CONTRACTS}
    layered = [name for layer in layers(by_type["layers"]) for name in layer]
    assert sorted(layered) == sorted(TOP)
    assert set(by_type["forbidden"]["source_modules"]) == TOP - {"taskfree.paper"}


def test_every_exception_from_a_rule_has_a_reason():
    for file in SOURCE.rglob("*.py"):
        for line in file.read_text().splitlines():
            if "# noqa" in line or "# type: ignore" in line:
                reason = re.search(r"# noqa: [A-Z0-9]+ - \w|# type: ignore\[[\w-]+\]  # \w", line)
                assert reason, f"{file}: {line.strip()}"
