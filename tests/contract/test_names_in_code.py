"""One name, one meaning: classes and modules that a reader could confuse have different names."""

import ast
from collections import defaultdict
from pathlib import Path

import queuegate_server

SERVER = Path(queuegate_server.__file__).parent


def test_no_two_public_classes_of_the_server_share_a_name() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in SERVER.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SERVER)))
    assert len(found) > 300
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_two_modules_of_identity_share_a_name() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in (SERVER / "identity").rglob("*.py"):
        if path.name != "__init__.py":
            found[path.name].append(str(path.relative_to(SERVER)))
    assert len(found) > 50
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}
