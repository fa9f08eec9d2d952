"""Which module of dfml imports which, read from the source; not a test itself."""

import ast
from functools import cache
from pathlib import Path

import dfml

SOURCE = Path(dfml.__file__).parent


def module_name(path: Path) -> str:
    parts = ("dfml", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(name: str) -> str:
    """`dfml.apis.ledger.index` is in `apis`; `dfml` itself is in none."""
    return name.split(".")[1] if "." in name else ""


@cache
def imports(*, offered: bool = False) -> dict[str, set[str]]:
    """Every module of dfml -> the modules of dfml it names in any import, also those inside functions.

    With `offered`, also those that it names by what a package offers of them.
    """
    files = {module_name(path): path for path in SOURCE.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    taken: dict[str, dict[str, str]] = {}
    """module -> each name that it imports -> from where"""
    for name, path in files.items():
        whole: set[str] = set()
        taken[name] = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                whole |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.level == 0, f"{name}: relative imports hide the graph"
                whole |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
                taken[name] |= {alias.name: node.module for alias in node.names}
        graph[name] = {target for target in whole if target in files}
    for name, origins in taken.items() if offered else ():
        behind = {taken[package][each] for each, package in origins.items() if each in taken.get(package, ())}
        graph[name] |= behind & set(files)
    return graph


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen, waiting = set(), [start]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen
