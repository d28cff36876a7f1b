"""Random pairs of a yarn-site.xml and a capacity-scheduler.xml that overrides it."""

import random
from typing import Final
from xml.sax.saxutils import escape, quoteattr

PREFIX: Final = "yarn.scheduler.capacity."
NAMES: Final = (
    *("yarn.acl.enable", "yarn.admin.acl", "team", "other", ""),
    *(
        f"{PREFIX}{path}.{key}"
        for path in ("root", "root.a", "root.b", "root.a.c")
        for key in ("queues", "acl_submit_applications", "acl_administer_queue")
    ),
)
"""The properties that are set and queried. Without a name, nothing is set."""
_USUAL: Final = (
    *(("yarn.acl.enable", "true"), ("yarn.admin.acl", "yarn")),
    *(("team", "ann"), ("other", "bob"), ("which", "other")),
    *((f"{PREFIX}root.queues", "a,b"), (f"{PREFIX}root.a.queues", "c")),
    *((f"{PREFIX}root.acl_{each}", " ") for each in ("submit_applications", "administer_queue")),
)
"""The properties that most pairs have, so that most of them load."""
_HOSTNAME: Final = (
    "<property><name>yarn.resourcemanager.hostname</name><value>rm</value></property>"
)
"""Without a key of its own, a file is not accepted as a yarn-site.xml."""
_ACLS: Final = (
    *(" ", " ", "*", "bob", "alice,bob ops", " ops", "${team}", "${other} ops", "", ""),
    *("${team},${other}", "${nosuch}", "x${${which}}", "$ {team} ${} ${a b}", "\n bob\n"),
)
_QUEUES: Final = ("a", "a,b", " b , a ", "c", "${team}", "")
_FINAL: Final = (*("",) * 6, *("true",) * 4, " true ", "TRUE", "false")


def layers(chance: random.Random) -> tuple[str, str]:
    """Return the texts of a yarn-site.xml and a capacity-scheduler.xml."""
    files: tuple[list[str], list[str]] = [_HOSTNAME], []
    for name, value in _USUAL:
        if chance.random() < 0.9:
            at = 0 if name.startswith("yarn.a") else chance.randrange(2)
            files[at].append(_written(chance, name, value))
    for file in files:
        file += [_property(chance) for _ in range(chance.randrange(6))]
        chance.shuffle(file)
    site, scheduler = (
        "\n".join(["<configuration>", *file, "</configuration>\n"]) for file in files
    )
    return site, scheduler


def _property(chance: random.Random) -> str:
    name = chance.choice(NAMES)
    value = chance.choice(_QUEUES if name.endswith("queues") else _ACLS)
    if name == "yarn.acl.enable":
        value = chance.choice(["true", " TRUE ", "no", "", "${team}"])
    elif name in {"team", "other"}:
        value = chance.choice(["ann", "true", "a", "${team}", "${other}", ""])
    return _written(chance, name, value)


def _written(chance: random.Random, name: str, value: str) -> str:
    final = chance.choice(_FINAL)
    if chance.random() < 0.2:
        name = chance.choice([name, name, f" {name}"])
        said = f" final={quoteattr(final)}" if final else ""
        return f"<property name={quoteattr(name)} value={quoteattr(value)}{said}/>"
    said = f"<final>{final}</final>" if final else ""
    name = chance.choice([name, name, f"\n  {name} "])
    return (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value>{said}"
        f"{'<description>why</description>' if chance.random() < 0.1 else ''}</property>"
    )
