"""capacity-scheduler.xml lies over yarn-site.xml: which value counts, and what is reported."""

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.acl_positions import AclKey, Place, acl_positions
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.registry import FormatOptions, LoadResult, check_file, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, prop

KEY = "yarn.scheduler.capacity."
SUBMIT = f"{KEY}root.etl.acl_submit_applications"
ROOT_SUBMIT = f"{KEY}root.acl_submit_applications"
ROOT_ADMIN = f"{KEY}root.acl_administer_queue"
ON = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
FINAL = "<final>true</final>"
QUEUES = prop(f"{KEY}root.queues", "default,etl")
CLOSED = prop(ROOT_SUBMIT, " ") + prop(ROOT_ADMIN, " ")
BASE = f"{QUEUES}\n{CLOSED}\n{prop(SUBMIT, 'alice')}"


def options(site: str, semantics: Semantics = Semantics.HADOOP) -> FormatOptions:
    text = f"<configuration>\n{ON}\n{site}\n</configuration>".encode()
    return FormatOptions(yarn=YarnOptions(semantics=semantics, site=(text, "yarn-site.xml")))


def configuration(scheduler: str) -> bytes:
    return f"<configuration>\n{scheduler}\n</configuration>".encode()


def loaded(scheduler: str, site: str, semantics: Semantics = Semantics.HADOOP) -> LoadResult:
    return load_policy(CAPACITY, configuration(scheduler), "cs.xml", options(site, semantics))


def partition(result: LoadResult) -> Partition:
    assert not has_errors(result.diagnostics), result.diagnostics
    return result.partitions["default"]


def submits(result: LoadResult, users: str = "alice bob", queue: str = "root.etl") -> str:
    """Return those of the users who may submit to a queue."""
    found = []
    for user in users.split():
        decision = decide(partition(result), queue, Access.SUBMIT, user, ())
        assert decision is not None
        found += [user] * decision.allowed
    return " ".join(found)


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("scheduler", "site", "expected"),
    [
        (BASE, "", "alice"),
        (BASE, prop(SUBMIT, "bob"), "alice"),
        (BASE, prop(SUBMIT, "bob", FINAL), "bob"),
        (BASE, prop(SUBMIT, "bob", "<final> true </final>"), "alice"),
        (BASE, prop(SUBMIT, "bob", FINAL) + prop(SUBMIT, "eve"), "bob"),
        (BASE, prop(SUBMIT, "", FINAL), ""),
        (BASE, prop(SUBMIT, "bob") + prop(SUBMIT, "", FINAL), "bob"),
        (QUEUES + CLOSED + prop(SUBMIT, ""), prop(SUBMIT, "bob"), "bob"),
        (QUEUES + CLOSED, prop(SUBMIT, "bob"), "bob"),
        (QUEUES + CLOSED + prop(SUBMIT, "alice", FINAL), prop(SUBMIT, "bob"), "alice"),
        # A root that only yarn-site.xml closes, opens, or lists queues for.
        (QUEUES + prop(SUBMIT, "alice"), CLOSED, "alice"),
        (BASE, prop(ROOT_SUBMIT, "*", FINAL), "alice bob"),
        (CLOSED + prop(SUBMIT, "alice"), QUEUES, "alice"),
        (BASE, prop(f"{KEY}root.queues", "default", FINAL), ""),
        ("", BASE, "alice"),
        # Variables are looked up in both files.
        (QUEUES + CLOSED + prop(SUBMIT, "${team}"), prop("team", "bob"), "bob"),
        (QUEUES + CLOSED + prop("team", "alice"), prop(SUBMIT, "${team}"), "alice"),
        (
            BASE + prop("team", "alice"),
            prop("team", "bob") + prop(SUBMIT, "${team}", FINAL),
            "alice",
        ),
        (BASE + prop("team", "alice"), prop("team", "bob", FINAL), "alice"),
        # An attribute without text is the value of nobody, an element without text is none.
        (BASE, f'<property name="{SUBMIT}" value="" final="true"/>', ""),
        (BASE, f'<property name=" {SUBMIT} " value="bob" final="true"/>', "alice"),
    ],
)
def test_the_value_that_counts(
    scheduler: str, site: str, expected: str, semantics: Semantics
) -> None:
    assert submits(loaded(scheduler, site, semantics)) == expected


def test_only_yarn_site_enables_acls_and_names_administrators() -> None:
    site = configuration(prop("yarn.resourcemanager.hostname", "rm"))
    switched = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
    read = FormatOptions(yarn=YarnOptions(site=(site, "yarn-site.xml")))
    result = load_policy(CAPACITY, configuration(BASE + switched), "cs.xml", read)
    cluster = partition(result).cluster
    assert cluster is not None
    assert not cluster.acls_enabled
    assert cluster.admins.allows_all
    found = [one.message for one in result.diagnostics if one.file == "cs.xml"]
    assert [message.split()[:4] for message in found] == [
        [name, "has", "no", "effect"] for name in ("yarn.acl.enable", "yarn.admin.acl")
    ]


@pytest.mark.parametrize(
    ("scheduler", "site", "expected"),
    [
        (
            BASE,
            prop(SUBMIT, "bob", FINAL),
            [f'cs.xml:4: "{SUBMIT}" is final in yarn-site.xml:3:1, so this value is ignored'],
        ),
        (
            BASE,
            prop(SUBMIT, "", FINAL),
            [
                f'cs.xml:4: "{SUBMIT}" is final and empty in yarn-site.xml:3:1, so this value is',
                f'yarn-site.xml:3: "{SUBMIT}" has an empty value, which sets nothing, and is final',
            ],
        ),
        (
            BASE,
            prop(SUBMIT, "bob"),
            [f'yarn-site.xml:3: "{SUBMIT}" is also set in cs.xml:4:80, which replaces this value'],
        ),
        (BASE, prop(SUBMIT, "alice", FINAL) + prop(ROOT_SUBMIT, " "), []),
        (BASE, prop(f"{KEY}root.etl.capacity", "5") + prop("x", "1", FINAL), []),
        (BASE + prop("x", "2"), prop("x", "1", FINAL), ['cs.xml:4: "x" is final in yarn-site.xml']),
    ],
)
def test_what_is_reported(scheduler: str, site: str, expected: list[str]) -> None:
    found = loaded(scheduler, site).diagnostics
    said = [f"{one.file}:{one.line}: {one.message}" for one in found]
    assert len(said) == len(expected), said
    for message, start in zip(said, expected, strict=True):
        assert message.startswith(start), message


@pytest.mark.parametrize(
    ("scheduler", "site", "expected"),
    [
        (BASE, prop(SUBMIT, "${nosuch}", FINAL), ("yarn-site.xml", '"nosuch" is not set in')),
        (BASE + prop(SUBMIT, "${nosuch}"), "", ("cs.xml", "in yarn-site.xml or cs.xml")),
        (BASE + prop(SUBMIT, "${env.TEAM}"), "", ("cs.xml", "environment of Hadoop's process")),
        (BASE + prop(SUBMIT, "${hadoop.id.str}"), "", ("cs.xml", "environment of Hadoop's")),
        (BASE + prop(SUBMIT, "${a}"), prop("a", "${a}"), ("yarn-site.xml", "contains itself")),
        (BASE, prop(SUBMIT, "<![CDATA[bob]]>", FINAL), ("yarn-site.xml", "is not plain text")),
        (BASE, '<include href="other.xml"/>', ("yarn-site.xml", '"other.xml"')),
        (BASE + '<include href="yarn-site.xml"/>', "", ("cs.xml", '"yarn-site.xml"')),
        (
            BASE,
            '<i:include xmlns:i="x" href="ha.xml"><i:fallback><property/></i:fallback></i:include>',
            ("yarn-site.xml", '"ha.xml"'),
        ),
        (BASE + "<fallback/>", "", ("cs.xml", "<fallback> is outside an include")),
        (BASE, prop(f"{KEY}root.queues", "a.b", FINAL), ("yarn-site.xml", "it contains a dot")),
        (CLOSED, "", ("cs.xml", "lists no queue")),
    ],
)
def test_what_is_refused(scheduler: str, site: str, expected: tuple[str, str]) -> None:
    result = loaded(scheduler, site)
    assert not result.partitions
    file, words = expected
    errors = [one for one in result.diagnostics if one.severity == "error"]
    assert [one.file for one in errors] == [file]
    assert words in errors[0].message
    assert errors[0].line
    assert errors[0].remedy


def test_variables_of_values_that_do_not_count_are_not_read() -> None:
    assert submits(loaded(BASE + prop("x", "${nosuch}"), prop(SUBMIT, "${nosuch}"))) == "alice"
    late = prop(SUBMIT, "bob", FINAL)
    assert submits(loaded(BASE.replace("alice", "${nosuch}"), late)) == "bob"


def test_the_fair_scheduler_does_not_read_yarn_site() -> None:
    data = b'<allocations><queue name="root"><aclSubmitApps> </aclSubmitApps>'
    data += b'<aclAdministerApps> </aclAdministerApps><queue name="etl"/></queue></allocations>'
    site = prop(SUBMIT, "${nosuch}", FINAL) + prop(ROOT_SUBMIT, "*", FINAL)
    site += prop("yarn.resourcemanager.scheduler.class", "x.FairScheduler")
    result = load_policy("fair-scheduler", data, "fair.xml", options(site))
    assert submits(result) == ""
    assert not has_errors(result.diagnostics)


def test_positions_name_the_file() -> None:
    site = prop(SUBMIT, "bob", FINAL)
    found = acl_positions(CAPACITY, configuration(BASE), "cs.xml", options(site))
    assert found[AclKey("default", "root.etl", Access.SUBMIT)].file == "yarn-site.xml"
    assert found[AclKey("default", "root.etl", Access.SUBMIT)].line == 3
    assert found[AclKey("default", "root", Access.SUBMIT)] == Place("cs.xml", 3, 76)


def test_the_linter_reads_both_files() -> None:
    site = prop(SUBMIT, "alice, bob", FINAL) + prop(ROOT_SUBMIT, "*", FINAL)
    found = check_file(CAPACITY, configuration(BASE), "cs.xml", options(site), with_lint=True)
    messages = {(one.file, one.message.partition(":")[0]) for one in found}
    assert ("yarn-site.xml", "everyone may submit to every queue") in messages
    assert any(
        file == "yarn-site.xml" and "space beside the comma" in text for file, text in messages
    )


@pytest.mark.parametrize("name", ["yarn-site", CAPACITY])
def test_only_an_empty_acl_is_reported(name: str) -> None:
    others = "queue-mappings", "workflow-priority-mappings", "root.etl.maximum-capacity"
    text = BASE + "".join(prop(KEY + other, "") for other in others)
    text += prop("yarn.resourcemanager.hostname", "")
    acls = [ROOT_ADMIN, f"{KEY}root.etl.acl_administer_queue", "yarn.admin.acl"]
    closed = FormatOptions(yarn=YarnOptions(site=(configuration(ON), "s")))
    for acl, data in [("", text), *((acl, text + prop(acl, "")) for acl in acls)]:
        found = check_file(name, configuration(data), "f.xml", closed, with_lint=True)
        said = [one.message for one in found if "empty value" in one.message]
        assert len(said) == bool(acl)
        assert all(acl in one for one in said)
