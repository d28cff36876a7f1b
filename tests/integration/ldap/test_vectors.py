"""YuniKorn's answers: the LDAP vectors and its Secret. DEVIATIONS.md lists the differences."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.identity.resolvers.ldap.defaults import BadSecrets, read_secrets
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from tests.integration.ldap.conftest import Build
from tests.support.fakes.ldap_server import Answer, Search, fake_directory

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "usergroup_vectors.json").read_text())
LDAP: list[dict[str, Any]] = VECTORS["ldap"]
SECRETS: list[dict[str, Any]] = VECTORS["ldap_secrets"]

# Where we answer otherwise, and why: tests/vectors/DEVIATIONS.md.
NO_ENTRY = {"ug-ldap-01", "ug-ldap-24", "ug-ldap-25", "ug-ldap-26"}
SEVERAL_ENTRIES = {"ug-ldap-03"}
NO_EMPTY_NAME = {"ug-ldap-13": ["alice"]}
NO_PANIC = {"ug-ldap-15": ["alice", "g1"], "ug-ldap-18": ["alice", "g1"]}
ANY_CASE_OF_ATTRIBUTE = {"ug-ldap-20": ["alice", "g1"]}
REFUSED_SECRETS = {"ug-secret-32"}


def secrets(folder: Path, files: dict[str, str]) -> Path:
    """Lay files out as the kubelet mounts a Secret."""
    data = folder / "..2026_11_21"
    data.mkdir()
    for name, text in files.items():
        (data / name).write_text(text)
        (folder / name).symlink_to(Path("..data") / name)
    (folder / "..data").symlink_to(data.name)
    return folder


REPEATED: dict[str, Any] = {
    "id": "repeated",
    "user": "alice",
    "entries": [["CN=g1,OU=a,DC=x", "CN=g2,DC=x", "CN=g1,OU=a,DC=x", "CN=g1,OU=b,DC=x"]],
    "groups": ["alice", "g1", "g2"],
}
"""YuniKorn keeps the repetitions."""


@pytest.mark.parametrize("case", [*LDAP, REPEATED], ids=lambda case: case["id"])
async def test_groups_as_in_yunikorn(resolver: Build, tmp_path: Path, case: dict[str, Any]) -> None:
    attribute = case.get("attribute", "memberOf")

    def answer(search: Search) -> Answer:
        return Answer(
            [
                (
                    f"CN=u{number},DC=example,DC=com",
                    {
                        "sAMAccountName": [case["user"].encode()],
                        "uid": [case["user"].encode()],
                        attribute: [value.encode() for value in values],
                    },
                )
                for number, values in enumerate(case.get("entries", []))
            ]
        )

    async with fake_directory(answer) as fake:
        fake.bind_code = 49 if case.get("fail") == "bind" else 0
        files = {
            "Host": "127.0.0.1",
            "Port": str(fake.port),
            "BaseDN": "dc=example,dc=com",
            "Filter": case.get("config", {}).get("Filter", "(&(sAMAccountName=%s))"),
            "GroupAttr": "memberOf",
            "ReturnAttr": "memberOf",
            "BindUser": "cn=admin,dc=example,dc=com",
            "BindPassword": "password",
        }
        opened = await resolver(
            fake.url,
            urls=None,
            ca_file=None,
            bind_dn=None,
            bind_password_file=None,
            user_base=None,
            group_base=None,
            secrets_dir=str(secrets(tmp_path, files)),
            start_tls=False,
            allow_plaintext_bind=True,
        )
        outcome = await opened.resolve(case["user"])
        sent = fake.searches
    if case.get("fail"):
        assert isinstance(outcome, LookupFailure)
    elif case["id"] in NO_ENTRY:
        assert isinstance(outcome, NoSuchUser)
    elif case["id"] in SEVERAL_ENTRIES:
        assert isinstance(outcome, LookupFailure)
    else:
        known = NO_EMPTY_NAME | NO_PANIC | ANY_CASE_OF_ATTRIBUTE
        assert outcome == KnownUser(tuple(known.get(case["id"], case.get("groups", []))))
    if "filter" in case and not case.get("reference_defect"):
        # Brackets around a single comparison are ours to add.
        assert sent[0].filter == case["filter"]
    if case.get("reference_defect"):
        assert "(sAMAccountName=a*)(uid=*)" in sent[0].filter, "one value, escaped on the way"
        assert sent[0].filter.count("(") == 2 + case["user"].count("(")


@pytest.mark.parametrize("case", SECRETS, ids=lambda case: case["id"])
def test_secret_as_in_yunikorn(tmp_path: Path, case: dict[str, Any]) -> None:
    folder = secrets(tmp_path, case["files"])

    def build() -> LdapOptions:
        return LdapOptions.model_validate({"secrets_dir": str(folder)})

    if not case["ok"] or case["id"] in REFUSED_SECRETS:
        with pytest.raises(ValidationError):
            build()
        return
    options, config = build(), case["config"]
    scheme = "ldaps" if config["SSL"] else "ldap"
    assert options.urls == (f"{scheme}://{config['Host']}:{config['Port']}",)
    assert options.user_base == (config["BaseDN"],)
    assert options.user_filter in (config["Filter"], f"({config['Filter']})")
    assert options.bind_dn == config["BindUser"]
    assert options.bind_password_file
    assert options.bind_password_file.read_text() == config["BindPassword"]
    assert options.verify_certificate is not config["Insecure"]
    assert (options.groups_from, options.primary_group) == ("member_of", "user_name")
    assert options.start_tls
    assert not options.allow_plaintext_bind


GOOD = next(case["files"] for case in SECRETS if case["id"] == "ug-secret-01")


def test_options_of_our_own_win_over_the_secret(tmp_path: Path) -> None:
    folder = secrets(tmp_path, GOOD)
    options = LdapOptions.model_validate(
        {"secrets_dir": str(folder), "urls": ["ldaps://other"], "primary_group": "none"}
    )
    assert options.urls == ("ldaps://other",)
    assert options.primary_group == "none"


@pytest.mark.parametrize(
    ("text", "port"), [("+389", 389), ("0" * 9_999 + "389", 389), (" 1\n", 1), ("65535", 65535)]
)
def test_port_of_a_secret_is_a_number_as_go_reads_it(tmp_path: Path, text: str, port: int) -> None:
    folder = secrets(tmp_path, {**GOOD, "Port": text})
    assert read_secrets(folder)["urls"] == [f"ldap://{GOOD['Host']}:{port}"]


@pytest.mark.parametrize("text", ["0", "65536", "-1", "3 8 9", "+", "++1", "0x1", "1_0", "\u0663"])
def test_invalid_port_of_a_secret(tmp_path: Path, text: str) -> None:
    folder = secrets(tmp_path, {**GOOD, "Port": text})
    with pytest.raises(BadSecrets, match="Port that is not a number from 1 to 65535"):
        read_secrets(folder)


@pytest.mark.parametrize("own_file", [False, True])
def test_password_of_a_secret_is_trimmed_and_one_of_our_own_is_not(
    tmp_path: Path, own_file: bool
) -> None:
    folder = secrets(tmp_path, {**GOOD, "BindPassword": " pass word \r\n\n"})
    own = tmp_path / "own"
    own.write_bytes(b" pass word \n")
    given = {"bind_password_file": str(own)} if own_file else {}
    options = LdapOptions.model_validate({"secrets_dir": str(folder), **given})
    assert options.password() == (b" pass word " if own_file else b"pass word")


def test_faults_of_a_secret_are_reported_without_its_values(tmp_path: Path) -> None:
    folder = secrets(tmp_path, {"BindPassword": "hunter2", "Port": "hunter2"})
    with pytest.raises(BadSecrets) as caught:
        read_secrets(folder)
    assert "Host, BaseDN, Filter" in str(caught.value)
    assert "has a Port that is not a number" in str(caught.value)
    with pytest.raises(ValidationError) as refused:
        LdapOptions.model_validate({"secrets_dir": str(folder)})
    assert "hunter2" not in str(refused.value)
    with pytest.raises(BadSecrets, match="cannot be read: No such file"):
        read_secrets(tmp_path / "nowhere")
