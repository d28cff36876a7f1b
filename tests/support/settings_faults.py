"""Errors in settings, as lines."""

from pathlib import Path

import pytest

from queuegate_server.settings.load import SettingsError, load_settings


def faults(
    file: Path | None, text: str = "", variables: dict[str, str] | None = None, *options: str
) -> list[str]:
    """Return the errors, with one line per diagnostic."""
    if file is not None:
        file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file, variables, options)
    lines = [str(diagnostic) for diagnostic in caught.value.diagnostics]
    assert str(caught.value) == "\n".join(lines)
    return lines
