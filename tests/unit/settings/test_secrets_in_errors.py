"""No error shows the value of a key, which may be a secret in the wrong place."""

import json
from pathlib import Path

import pytest

from queuegate_server.identity import resolver_types
from queuegate_server.settings.load import SettingsError, load_settings

SECRET = "hunter2"
RESOLVERS: dict[str, dict[str, object]] = {
    "ldap": {"urls": ["ldaps://ldap.example"], "bind": "anonymous", "user_base": "dc=example"},
    "keycloak": {
        "url": "https://id.example",
        "realm": "corp",
        "client_id": "queuegate",
        "client_secret_file": "secret",
    },
    "entra": {"tenant": "corp", "client_id": "queuegate", "client_secret_file": "secret"},
    "okta": {"url": "https://id.example", "token_file": "secret"},
}
MISPLACED = (
    SECRET,
    f"{SECRET} {SECRET}",
    f"{SECRET}\n",
    f"https://user:{SECRET}@id.example",
    f"https://id.example/?{SECRET}",
    f"keycloak.{SECRET}",
    f"({SECRET}",
    [SECRET],
    {SECRET: SECRET},
)


@pytest.mark.parametrize("kind", RESOLVERS)
def test_a_secret_under_any_key_of_a_resolver_is_not_quoted(file: Path, kind: str) -> None:
    Path("secret").write_text("secret\n")
    quoted, refused = [], 0
    for key in resolver_types.resolver_type(kind).Options.model_fields:
        more = {"user_name": "attribute"} if key == "user_attribute" else {}
        for value in MISPLACED:
            resolver = {"type": kind, **RESOLVERS[kind], **more, key: value}
            file.write_text(json.dumps({"policy": {"path": "p"}, "resolvers": {"r": resolver}}))
            try:
                load_settings(file)
            except SettingsError as error:
                refused += 1
                if SECRET in str(error):
                    quoted.append((key, value))
    assert not quoted
    assert refused > len(RESOLVERS) * len(MISPLACED)
