"""The entries of the test directories, and changes of them, as LDIF."""

import base64

from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, POSIX, SERVICE, SUFFIX


def attribute(name: str, value: str) -> str:
    return f"{name}:: {base64.b64encode(value.encode()).decode()}"


def entry(dn: str, *lines: tuple[str, str]) -> str:
    return "\n".join([attribute("dn", dn), *(attribute(*line) for line in lines)]) + "\n\n"


def base() -> str:
    units = [dn.partition(",")[0].partition("=")[2] for dn in (PEOPLE, GROUPS, POSIX)]
    return entry(
        SUFFIX, ("objectClass", "dcObject"), ("objectClass", "organization"), ("o", "lab")
    ) + "".join(
        [
            *(
                entry(f"ou={unit},{SUFFIX}", ("objectClass", "organizationalUnit"))
                for unit in (*units, "machines", "hidden", "more")
            ),
            account(SERVICE, PASSWORD),
        ]
    )


def account(dn: str, password: str) -> str:
    return entry(
        dn,
        ("objectClass", "organizationalRole"),
        ("objectClass", "simpleSecurityObject"),
        ("cn", dn.partition(",")[0].partition("=")[2]),
        ("userPassword", password),
    )


def person(uid: str, gid: int = 100, where: str = PEOPLE) -> str:
    return entry(
        f"uid={escaped(uid)},{where}",
        ("objectClass", "inetOrgPerson"),
        ("objectClass", "posixAccount"),
        ("uid", uid),
        ("cn", uid),
        ("sn", uid),
        ("uidNumber", "1000"),
        ("gidNumber", str(gid)),
        ("homeDirectory", "/"),
    )


def group(name: str, *members: str, where: str = GROUPS, rdn: str = "") -> str:
    return entry(
        f"{rdn or f'cn={escaped(name)}'},{where}",
        ("objectClass", "groupOfNames"),
        ("cn", name),
        *(("member", member) for member in members),
    )


def unique_group(name: str, *members: str) -> str:
    return entry(
        f"cn={name},{GROUPS}",
        ("objectClass", "groupOfUniqueNames"),
        ("cn", name),
        *(("uniqueMember", member) for member in members),
    )


def posix_group(name: str, gid: int, *members: str, where: str = POSIX, rdn: str = "") -> str:
    return entry(
        f"{rdn or f'cn={name}'},{where}",
        ("objectClass", "posixGroup"),
        ("cn", name),
        ("gidNumber", str(gid)),
        *(("memberUid", member) for member in members),
    )


def dn(uid: str) -> str:
    return f"uid={escaped(uid)},{PEOPLE}"


def group_dn(name: str) -> str:
    return f"cn={escaped(name)},{GROUPS}"


def change(dn: str, *lines: str) -> str:
    """A change of an entry's attributes."""
    return "\n".join([f"dn: {dn}", "changetype: modify", *lines]) + "\n\n"


def delete(dn: str) -> str:
    return f"dn: {dn}\nchangetype: delete\n\n"


def rename(dn: str, rdn: str, *, below: str = "") -> str:
    """A change of a name, and perhaps of the entry above."""
    to = f"newsuperior: {below}\n" if below else ""
    return f"dn: {dn}\nchangetype: modrdn\nnewrdn: {rdn}\ndeleteoldrdn: 1\n{to}\n"


def escaped(value: str) -> str:
    for char in '\\,+"<>;#=':
        value = value.replace(char, f"\\{char}")
    return value


STRANGE = ("Smith, Team (EU) #1", "größe und länge", 'a"b\\c', "x+y=z", "*)(uid=*")
"""Names of groups that break code that treats DNs and filters as plain text."""


def standard() -> str:
    """alice is in many groups, bob in one, carol in none; see the tests."""
    return (
        base()
        + person("alice", 500)
        + person("bob", 501)
        + person("carol", 599)
        + person("dave")
        + person("twin")
        + person("twin", where=f"ou=more,{SUFFIX}")
        + person("o'neil (jr)*")
        + group("analytics", dn("alice"), dn("bob"))
        + group("Ops", dn("alice"))
        + "".join(group(name, dn("dave")) for name in STRANGE)
        + group("two", dn("dave"), rdn="ou=b+cn=two")
        + unique_group("unique", dn("alice"))
        # level1 to level6, each in the next. level2 also contains level4: a cycle.
        + group("level1", dn("carol"))
        + group("level2", group_dn("level1"), group_dn("level4"))
        + "".join(group(f"level{n}", group_dn(f"level{n - 1}")) for n in range(3, 8))
        + group("outside", dn("bob"), where=f"ou=more,{SUFFIX}")
        + posix_group("staff", 500)
        + posix_group("devs", 501, "alice", "bob")
        + posix_group("wheel", 502, "alice")
    )
