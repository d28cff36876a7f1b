"""The settings of a policy that is Kubernetes' RBAC."""

from pathlib import Path

import pytest

from queuegate_server.settings.load import SettingsError, load_settings


def test_only_a_cluster_requires_the_extra(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuegate_server.settings.model.find_spec", lambda name: None)
    file.write_text("policy: {kubernetes: {manifests: [rbac]}}\n")
    assert load_settings(file).policy is not None
    file.write_text("policy: {kubernetes: {}}\n")
    with pytest.raises(SettingsError, match=r"pip install 'queuegate\[admission\]'"):
        load_settings(file)
