"""Which notebooks: those of some numbers, those that changed, those that use a piece of code."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

# The evidence first: the tables of the tour say what it found.
COLLECTIONS = {"tours": [""], "evidence": ["evidence"], "both": ["evidence", ""]}


def numbered(folder: Path, collection: str = "both") -> list[Path]:
    """The numbered notebooks of a collection below `folder`, by number."""
    places = [folder / each for each in COLLECTIONS[collection]]
    return [path for place in places for path in sorted(place.glob("[0-9]*.ipynb"))]


def select(folder: Path, prefixes: list[str], collection: str = "both") -> list[Path]:
    """The notebooks of a collection whose names begin with one of the prefixes (or all)."""
    notebooks = numbered(folder, collection)
    if not notebooks:
        sys.exit(f"no numbered notebooks of the collection {collection!r} in {folder}")
    for prefix in prefixes:
        if not any(path.name.startswith(prefix) for path in notebooks):
            names = ", ".join(sorted({path.stem for path in notebooks}))
            sys.exit(f"no notebook begins with {prefix!r}; there are {names}")
    return [path for path in notebooks if path.name.startswith(tuple(prefixes or [""]))]


def imports(tree: ast.Module) -> set[str]:
    """Everything that a module imports anywhere in it, as dotted names."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def notebook_imports(path: Path) -> set[str]:
    """Everything that the code cells of a notebook import, as dotted names."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return set().union(*(imports(ast.parse(each)) for each in code))


def piece(name: str) -> str | None:
    """The piece of code that a file below notebooks/, or an imported name, belongs to.

    It is a folder of chapters, "chapters/torus", or a module or folder of the evidence's support,
    "evidence/support/nb10"; None for everything else.
    """
    found = re.match(r"(?:chapters|evidence[./]support)[./]\w+", name)
    return found and found[0].replace(".", "/")


def users(root: Path) -> dict[str, set[Path]]:
    """The notebooks that use each piece of code, by their imports and those of what they import.

    A chapter with a number is used by its notebooks in any case: exercises are found by number.
    """
    folder, needs, found = root / "notebooks", {}, {}
    for path in [*folder.glob("chapters/*/**/*.py"), *folder.glob("evidence/support/**/*.py")]:
        names = imports(ast.parse(path.read_text("utf-8")))
        own = piece(path.relative_to(folder).as_posix())
        needs[own] = needs.get(own, set()) | {piece(name) for name in names}
    for path in select(folder, []):
        used = {each for each in needs if each.startswith(f"chapters/nb{path.name[:2]}_")}
        left = used | {piece(name) for name in notebook_imports(path)}
        while left:
            used |= left
            left = set().union(*(needs.get(each, set()) for each in left)) - used
        for each in used - {None}:
            found.setdefault(each, set()).add(path)
    return found


def changed(notebooks: list[Path], root: Path) -> list[Path]:
    """Those that differ from the last commit, or that use code which does."""
    settings = "-c status.relativePaths=true -c color.status=never"  # whatever the user's are
    command = f"git {settings} status --short --no-renames --untracked-files=all ."
    status = subprocess.run(
        command.split(), cwd=root / "notebooks", capture_output=True, text=True, check=True
    )
    files, users_of = [line[3:] for line in status.stdout.splitlines()], users(root)
    paths = {root / "notebooks" / file for file in files}
    paths.update(*(users_of.get(piece(file), ()) for file in files))
    return [path for path in notebooks if path in paths]
