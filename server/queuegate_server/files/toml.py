"""Reads data from TOML files beside the modules that use it."""

import tomllib
from pathlib import Path
from typing import Any


def read_toml(module_file: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML file.

    Args:
        module_file: The `__file__` of a module in the same folder.
        name: The name of the file.
    """
    return tomllib.loads(Path(module_file).with_name(name).read_text(encoding="utf-8"))
