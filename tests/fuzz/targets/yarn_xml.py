"""Files of a YARN cluster: diagnostics or a policy, and the policy that the slow readers read.

The first byte of an input selects the kind of the file and the semantics; the rest is the file.
"""

import copy
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from xml.etree import ElementTree as ET

from queuegate.policy.acl import AclNames
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.registry import FormatOptions, check_file, load_policy
from queuegate_server.formats.yarn.convert import convert
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.formats.yarn.site import read_site
from tests.fuzz.targets.diagnostics import judge_diagnostics
from tests.support.generators.yarn import configuration
from tests.support.oracles.hadoop_files import allocations, capacity_queues, properties
from tests.support.oracles.yarn import trim
from tests.support.yarn_vectors import VECTORS

FAIR, CAPACITY, SITE, SPARK = "fair-scheduler", "capacity-scheduler", "yarn-site", "spark-defaults"
TOKENS: Final = tuple(
    map(
        str.encode,
        (
            *("<allocations>", "</allocations>", '<queue name="a">', "</queue>", '<pool name="b">'),
            *("</pool>", "<aclSubmitApps>", "</aclSubmitApps>", "<aclAdministerApps>"),
            *("</aclAdministerApps>", "<queue", ' name="root"', "<configuration>"),
            *("</configuration>", "<property>", "</property>", "<name>", "</name>", "<value>"),
            *("</value>", "<final>true</final>", ' value="x"', "<include/>", "<x>", "</x>"),
            *("yarn.scheduler.capacity.root.queues", "yarn.scheduler.capacity.root."),
            *("acl_submit_applications", "acl_administer_queue", ".queues", "yarn.acl.enable"),
            *("yarn.admin.acl", "true", "${yarn.admin.acl}", "${", "*", " ", ",", "~bob"),
            *("<![CDATA[", "]]>", "<!--", "-->", "<?x ?>", "<!DOCTYPE a [", '<!ENTITY b "c">'),
            *(
                '<?xml version="1.0" encoding="',
                "UTF-16",
                "latin-1",
                '"?>',
                "&#1;",
                "&lt;",
                "\ufeff",
            ),
            *("spark.acls.enable=true\n", "spark.admin.acls ", "\\\n", ": "),
        ),
    )
)
_TAGS: Final = ("property", "name", "value", "final", "queue", "pool", "aclSubmitApps", "x")
_TEXTS: Final = (
    "true",
    "root",
    "a",
    "\u00a0a",
    " ",
    "*",
    "bob ops",
    "~bob",
    "yarn.acl.enable",
    "\u00a0yarn.acl.enable",
)
_FILE: Final = "file"
_MAX_CONVERTED: Final = 50
"""Queues of which the converted policy is compared."""


def target(data: bytes) -> None:
    """Read one file."""
    if data:
        _KINDS[data[0] % len(_KINDS)](data[1:])


def seeds() -> Iterable[bytes]:
    """The files of the vectors."""
    for vector in VECTORS:
        asked = vector["input"]
        if "conf" in asked:
            lines = "".join(f"{name} {value}\n" for name, value in asked["conf"].items())
            yield b"\5" + lines.encode()
        text = asked.get("xml")
        if not text and "properties" in asked:
            text = configuration(asked["properties"])
        if text:
            kind = 0 if "<allocations" in text else 2
            yield bytes([kind]) + text.encode()
            yield bytes([kind + 1]) + text.encode()
        if "yarn_site" in asked:
            yield b"\4" + configuration(asked["yarn_site"]).encode()


def mutated(data: bytes, rng: random.Random) -> bytes | None:
    """Return the input with one element copied, removed or changed; None if it is not XML."""
    try:
        root = ET.fromstring(data[1:])  # noqa: S314 - changed, and not used
    except (ET.ParseError, LookupError, ValueError):
        return None
    elements = list(root.iter())
    element = rng.choice(elements)
    match rng.randrange(5):
        case 0:
            rng.choice(elements).append(copy.deepcopy(rng.choice([*element, element])))
        case 1 if len(element):
            element.remove(rng.choice(list(element)))
        case 2:
            element.tag = rng.choice([rng.choice(elements).tag, *_TAGS])
        case 3:
            element.set(rng.choice(["name", "value", "final"]), rng.choice(_TEXTS))
        case _:
            element.text = rng.choice([rng.choice(elements).text, *_TEXTS])
    return data[:1] + ET.tostring(root)


def _scheduler(data: bytes, kind: str, semantics: Semantics) -> None:
    options = FormatOptions(yarn=YarnOptions(semantics=semantics))
    loaded = load_policy(kind, data, _FILE, options)
    judge_diagnostics(loaded.diagnostics, _FILE)
    judge_diagnostics(check_file(kind, data, _FILE, options, with_lint=True), _FILE)
    assert has_errors(loaded.diagnostics) is not bool(loaded.partitions)
    if not loaded.partitions:
        return
    partition = loaded.partitions["default"]
    found = {
        path: (queue.submit_acl.text, queue.admin_acl.text)
        for path, queue in partition.queues.items()
    }
    if not _has_namespaces(data) and b"${" not in data.replace(b"\0", b""):
        expected = _allocated(data) if kind == FAIR else dict(capacity_queues(data))
        if semantics is Semantics.HADOOP:
            expected["root"] = _open(data, kind, expected["root"])
        assert found == expected, f"{found}, expected {expected}"
    _judge_converted(data, kind, options.yarn, partition)


def _allocated(data: bytes) -> dict[str, tuple[str, str]]:
    return {
        path: (acls.get("aclSubmitApps", " "), acls.get("aclAdministerApps", " "))
        for path, acls in allocations(data).items()
    }


def _open(data: bytes, kind: str, closed: tuple[str, str]) -> tuple[str, str]:
    """Return the ACLs of the root, which are those of everyone where they are not set."""
    if kind == FAIR:
        acls: Mapping[str, str] = allocations(data)["root"]
        keys = ("aclSubmitApps", "aclAdministerApps")
    else:
        acls = properties(data)
        prefix = "yarn.scheduler.capacity.root."
        keys = (f"{prefix}acl_submit_applications", f"{prefix}acl_administer_queue")
    submit, admin = (text if key in acls else "*" for key, text in zip(keys, closed, strict=True))
    return submit, admin


def _judge_converted(data: bytes, kind: str, yarn: YarnOptions, partition: Partition) -> None:
    """The queues.yaml of a file loads, and grants nobody more."""
    for names in AclNames:
        result = convert(kind, data, _FILE, yarn, names)
        for diagnostics in (result.diagnostics, result.lost):
            judge_diagnostics(diagnostics, _FILE)
        assert result.text
        options = FormatOptions(acl_names=names)
        loaded = load_policy("yunikorn", result.text.encode(), _FILE, options)
        assert loaded.diagnostics == (), loaded.diagnostics
        written = loaded.partitions["default"]
        original = {path.lower(): path for path in partition.queues if path.isascii()}
        for path, queue in list(written.queues.items())[:_MAX_CONVERTED]:
            acls = (queue.submit_acl, queue.admin_acl)
            users = {"nobody"}.union(*(acl.users for acl in acls))
            groups = {"no group"}.union(*(acl.groups for acl in acls))
            for user, group in zip(sorted(users), sorted(groups), strict=False):
                for access in Access:
                    after = decide(written, path, access, user, [group])
                    before = decide(partition, original[path], access, user, [group])
                    assert after
                    assert before
                    assert before.allowed or not after.allowed, (path, access, user, group)


def _site(data: bytes) -> None:
    options = YarnOptions(site=(data, _FILE))
    site, diagnostics = read_site(options.site, options.semantics)
    judge_diagnostics(diagnostics, _FILE)
    check = partial(check_file, SITE, data, _FILE, FormatOptions(yarn=options))
    judge_diagnostics(check(with_lint=True), _FILE)
    if has_errors(diagnostics) or _has_namespaces(data):
        return
    stated = properties(data)
    switch, admins = stated.get("yarn.acl.enable", ""), stated.get("yarn.admin.acl", "*")
    if "${" not in switch + admins:
        assert site.acls_enabled is (trim(switch).lower() == "true")
        assert site.admins == admins


def _spark(data: bytes) -> None:
    judge_diagnostics(check_file(SPARK, data, _FILE, with_lint=True), _FILE)


def _has_namespaces(data: bytes) -> bool:
    """Return whether names may have prefixes, which the slow readers read in another way."""
    if b"xmlns" in data.replace(b"\0", b""):
        return True
    if b":" in data:
        with suppress(ET.ParseError):
            ET.fromstring(data)  # noqa: S314 - no document type is accepted
            return False
        return True
    return False


_KINDS: Final[Sequence[Callable[[bytes], None]]] = (
    partial(_scheduler, kind=FAIR, semantics=Semantics.DOCUMENTED),
    partial(_scheduler, kind=FAIR, semantics=Semantics.HADOOP),
    partial(_scheduler, kind=CAPACITY, semantics=Semantics.DOCUMENTED),
    partial(_scheduler, kind=CAPACITY, semantics=Semantics.HADOOP),
    _site,
    _spark,
)
