from pathlib import Path
from typing import Any

import pytest

from queuegate_server.admission.annotations.yunikorn_settings import (
    InvalidPattern,
    YuniKornSettingsError,
    compile_patterns,
    decode_settings,
    read_settings,
)
from queuegate_server.files.configmap import ConfigMapFolders
from queuegate_server.files.watcher import WatchedValue

ACCESS = "admissionController.accessControl."
EXTERNAL = "ADMISSION_CONTROLLER_EXTERNAL_USERS"
FILTER = "admissionController.filtering."


def test_defaults() -> None:
    settings = read_settings({})
    assert (settings.bypass_auth, settings.trust_controllers) == (False, True)
    assert settings.system_users.text == "^system:serviceaccount:kube-system:"
    assert settings.bypass_namespaces.text == "^kube-system$"
    lists = (settings.external_users, settings.external_groups, settings.process_namespaces)
    assert not any((*lists, settings.label_namespaces, settings.no_label_namespaces))
    assert settings.user_labels == ("yunikorn.apache.org/username",)


def test_older_variables() -> None:
    environment = {
        "ADMISSION_CONTROLLER_BYPASS_AUTH": "true",
        "ADMISSION_CONTROLLER_BYPASS_CONTROLLERS": "false",
        "ADMISSION_CONTROLLER_SYSTEM_USERS": "^s$",
        "ADMISSION_CONTROLLER_EXTERNAL_USERS": "^u$",
        "ADMISSION_CONTROLLER_EXTERNAL_GROUPS": "^g$",
        "ADMISSION_CONTROLLER_PROCESS_NAMESPACES": "^p$",
        "ADMISSION_CONTROLLER_BYPASS_NAMESPACES": "^b$",
        "ADMISSION_CONTROLLER_LABEL_NAMESPACES": "^l$",
        "ADMISSION_CONTROLLER_NO_LABEL_NAMESPACES": "^n$",
        "USER_LABEL_KEY": "team/user",
    }
    settings = read_settings({}, environment)
    assert (settings.bypass_auth, settings.trust_controllers) == (True, False)
    texts = [
        settings.system_users, settings.external_users, settings.external_groups,
        settings.process_namespaces, settings.bypass_namespaces, settings.label_namespaces,
        settings.no_label_namespaces,
    ]  # fmt: skip
    assert [each.text for each in texts] == ["^s$", "^u$", "^g$", "^p$", "^b$", "^l$", "^n$"]
    assert settings.user_labels == ("yunikorn.apache.org/username", "team/user")
    overridden = read_settings({f"{ACCESS}systemUsers": "", f"{ACCESS}bypassAuth": ""}, environment)
    assert not overridden.system_users
    assert overridden.bypass_auth is False


def test_every_fault_is_reported() -> None:
    with pytest.raises(YuniKornSettingsError) as caught:
        read_settings(
            {f"{ACCESS}bypassAuth": "yes", f"{FILTER}processNamespaces": "a,("},
            {EXTERNAL: "^(?!x)"},
        )
    assert caught.value.faults == (
        f"{ACCESS}bypassAuth: 'yes' is not a boolean: write true or false",
        f"{EXTERNAL}: the pattern '^(?!x)' is not valid: invalid perl operator: (?!",
        f"{FILTER}processNamespaces: the pattern '(' is not valid: missing ): (",
    )


@pytest.mark.parametrize(
    ("patterns", "text", "found"),
    [
        ("bob", "xbobx", True),
        ("^bob$", "bob\n", False),
        ("^bob$,^eve$", "eve", True),
        (" ^bob$ , ,", "bob", True),
        (" , ", "bob", False),
        ("\u2003^bob$\u00a0", "bob", True),
        ("^bob$\x1c", "bob", False),
        (r"^\pL+$", "é", True),
        (r"^\w$", "é", False),
        (r"(?i)^BOB\z", "bob", True),
        (r"^a.c$", "a\nc", False),
        (r"^a..c$", "a€€c", True),
        (r"^[[:alpha:]]+$", "bob", True),
        ("(a*)*b", "a" * 50_000, False),
    ],
)
def test_patterns_mean_what_they_mean_in_go(patterns: str, text: str, found: bool) -> None:
    assert compile_patterns(patterns).match(text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        r"\C",
        r"a\Z",
        r"(a)\1",
        "(?<=a)b",
        "a++",
        "*",
        "[",
        "a{1001}",
        "\ud800",
        "a" * 70_000,
        "a," * 1_001,
    ],
)
def test_patterns_that_go_refuses(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_patterns(pattern)


@pytest.mark.parametrize("key", [f"{ACCESS}bypassAuth", f"{ACCESS}trustControllers"])
@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("T", True), ("False", False), ("f", False)]
)
def test_booleans_of_go(key: str, text: str, value: bool) -> None:
    settings: Any = read_settings({key: text})
    field = "bypass_auth" if key.endswith("bypassAuth") else "trust_controllers"
    assert getattr(settings, field) is value


async def test_mounted_settings_are_replaced_by_good_ones_only(tmp_path: Path) -> None:
    key = "admissionController.accessControl.bypassAuth"
    watched = WatchedValue(
        ConfigMapFolders((tmp_path,)), lambda values: read_settings(decode_settings(values))
    )
    folder, gone = tmp_path, tmp_path.with_name("gone")
    for text, bypass_auth, counts in (
        ("true", True, (2, 0)),
        ("maybe", True, (2, 1)),
        ("\udcff", True, (2, 2)),
        ("false", False, (3, 2)),
    ):
        (tmp_path / key).write_text(text, errors="surrogateescape")
        for _ in range(3):
            await watched.reload()
        assert watched.value.bypass_auth is bypass_auth
        assert (watched.reloads, watched.failures) == counts
    folder.rename(gone)
    await watched.reload()
    gone.rename(folder)
    await watched.reload()
    assert (watched.reloads, watched.failures) == (4, 3)
