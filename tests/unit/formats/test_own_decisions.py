"""What YARN decides alone although it asks queuegate: notes, warnings and marks on changes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import lint, validate
from queuegate_server.formats.registry import FormatOptions, check_file, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, FAIR, prop

AUTHORIZER = "yarn.authorization-provider"
OURS = prop(AUTHORIZER, "io.queuegate.hadoop.QueuegateYarnAuthorizer")
RANGER = prop(AUTHORIZER, "org.apache.ranger.authorization.yarn.authorizer.RangerYarnAuthorizer")
SCHEDULER = "yarn.resourcemanager.scheduler.class"
PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
IS_FAIR = prop(SCHEDULER, f"{PACKAGE}.fair.FairScheduler")
ON = prop("yarn.acl.enable", "true")
ADMIN = prop("yarn.admin.acl", "yarn")
CAP = "yarn.scheduler.capacity"
KEY = f"{CAP}.root"
MAPPINGS = prop(f"{CAP}.queue-mappings", "u:alice:root.a")
QUEUES = (
    prop(f"{KEY}.queues", "a,b"),
    prop(f"{KEY}.acl_submit_applications", " "),
    prop(f"{KEY}.acl_administer_queue", " "),
)
CREATES = prop(f"{KEY}.a.auto-queue-creation-v2.enabled", "true")
MANAGES = prop(f"{KEY}.b.auto-create-child-queue.enabled", "true")
LEAF = f"{KEY}.a.auto-queue-creation-v2.leaf-template.acl_submit_applications"
MANAGED = f"{KEY}.b.leaf-queue-template.acl_administer_queue"

GENERAL = "YARN asks queuegate"
ADMINISTERS = "yarn.admin.acl: YARN alone decides who administers the cluster"
PLACES = "YARN alone decides which queue"
PRIORITY = "YARN alone decides who may use which priority"
RESERVES = "YARN alone decides who may use reservations"
BY_TEMPLATE = "YARN itself also grants it by this ACL"


def xml(*lines: str, root: str = "configuration") -> bytes:
    return "\n".join((f"<{root}>", *lines, f"</{root}>\n")).encode()


def queues(*more: str) -> bytes:
    return xml(*QUEUES, *more)


def fair(*more: str) -> bytes:
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    return xml(f'<queue name="root">{closed}', *more, "</queue>", root="allocations")


def options(*site: str) -> FormatOptions:
    yarn = YarnOptions(site=(xml(ON, ADMIN, *site), "yarn-site.xml"), semantics=Semantics.HADOOP)
    return FormatOptions(yarn=yarn)


NOTES = [
    (CAPACITY, queues(), (OURS,), [("s", 3, ADMINISTERS), ("s", 4, GENERAL)]),
    (
        CAPACITY,
        queues(MAPPINGS),
        (OURS,),
        [("q", 5, PLACES), ("s", 3, ADMINISTERS), ("s", 4, GENERAL)],
    ),
    (
        CAPACITY,
        queues(
            MAPPINGS,
            prop(f"{CAP}.queue-mappings-override.enable", "true"),
            prop(f"{KEY}.a.acl_application_max_priority", "[user=bob max_priority=3]"),
            prop(f"{KEY}.b.acl_submit_reservations", "bob"),
        ),
        (OURS,),
        [
            ("q", 5, f"{CAP}.queue-mappings and 1 more: {PLACES}"),
            ("q", 7, PRIORITY),
            ("q", 8, RESERVES),
            ("s", 3, ADMINISTERS),
            ("s", 4, GENERAL),
        ],
    ),
    (
        CAPACITY,
        queues(),
        (OURS, MAPPINGS, prop("yarn.acl.reservation-enable", "true")),
        [("s", 3, ADMINISTERS), ("s", 4, GENERAL), ("s", 5, PLACES), ("s", 6, RESERVES)],
    ),
    (
        FAIR,
        fair("<aclSubmitReservations>bob</aclSubmitReservations>"),
        (OURS, IS_FAIR, MAPPINGS),
        [("q", 3, RESERVES), ("s", 3, ADMINISTERS), ("s", 4, GENERAL)],
    ),
    (
        FAIR,
        fair("</queue><queuePlacementPolicy/><queue name='b'>").replace(b"root", b"a"),
        (OURS, IS_FAIR),
        [("q", 3, PLACES), ("s", 3, ADMINISTERS), ("s", 4, GENERAL)],
    ),
    ("yarn-site", b"", (OURS,), [("s", 3, ADMINISTERS), ("s", 4, GENERAL)]),
    *(
        (name, data, site, [])
        for name, data in ((CAPACITY, queues(MAPPINGS)), ("yarn-site", b""))
        for site in ((), (RANGER,), (prop(AUTHORIZER, "${authorizer}"),))
    ),
]


@pytest.mark.parametrize(("format_name", "data", "site", "expected"), NOTES)
def test_notes(
    format_name: str, data: bytes, site: tuple[str, ...], expected: list[tuple[str, int, str]]
) -> None:
    reading = options(*site)
    name = "queues.xml"
    if format_name == "yarn-site" and reading.yarn.site:
        data, name = reading.yarn.site
    for with_lint in (False, True):
        found = check_file(format_name, data, name, reading, with_lint=with_lint)
        notes = [each for each in found if each.severity == "note"]
        places = [("s" if each.file == "yarn-site.xml" else "q", each.line) for each in notes]
        assert places == [each[:2] for each in expected]
        if OURS in site:
            assert not any(AUTHORIZER in each.message for each in found if each not in notes)
        for note, (_, _, text) in zip(notes, expected, strict=True):
            assert text in note.message


@pytest.mark.parametrize(
    ("more", "site", "expected"),
    [
        ((CREATES, prop(LEAF, "alice")), (OURS,), [6]),
        ((CREATES, prop(LEAF, "*")), (OURS,), [6]),
        ((MANAGES, prop(MANAGED, " ops")), (OURS,), [6]),
        ((CREATES, MANAGES, prop(LEAF, "alice"), prop(MANAGED, " ops")), (OURS,), [7, 8]),
        ((CREATES, prop(LEAF, " ")), (OURS,), []),
        ((CREATES,), (OURS,), []),
        ((prop(LEAF, "alice"),), (OURS,), []),
        ((CREATES, prop(LEAF, "alice")), (), []),
        ((CREATES, prop(LEAF, "alice")), (RANGER,), []),
    ],
)
def test_templates_by_which_yarn_grants_access_itself(
    more: tuple[str, ...], site: tuple[str, ...], expected: list[int]
) -> None:
    """A server logs them, so they are warnings of the policy, not notes."""
    loaded = load_policy(CAPACITY, queues(*more), "queues.xml", options(*site))
    warnings = [each for each in loaded.diagnostics if BY_TEMPLATE in each.message]
    assert [each.line for each in warnings] == expected
    assert all(each.file == "queues.xml" and each.remedy and each.queue for each in warnings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    closed = prop("yarn.admin.acl", " ")
    for name, data in {
        "queues.xml": queues(),
        "site.xml": xml(ON, ADMIN),
        "ours.xml": xml(ON, ADMIN, OURS),
        "closed.xml": xml(ON, closed),
        "ours-closed.xml": xml(ON, closed, OURS),
        "unknown.xml": xml(ON, ADMIN, prop(AUTHORIZER, "${env.X}")),
    }.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("command", [validate, lint])
def test_notes_are_shown_and_fail_nothing(command: object, folder: Path) -> None:
    arguments = [str(folder / "queues.xml"), "--yarn-site", str(folder / "ours.xml")]
    arguments += ["--semantics", "hadoop"]
    result = CliRunner().invoke(command, arguments)  # type: ignore[arg-type]
    assert result.exit_code == 0
    site = folder / "ours.xml"
    starts = [line.partition(": note: ")[0] for line in result.stdout.splitlines()]
    assert starts == [f"{site}:3:38", f"{site}:4:51"]
    assert "1 file, 0 errors, 0 warnings" in result.stderr
    for output, word in (("json", '"note"'), ("sarif", '"level": "note"'), ("github", "::notice ")):
        shown = CliRunner().invoke(command, [*arguments, "-o", output])  # type: ignore[arg-type]
        assert shown.exit_code == 0
        assert shown.stdout.count(word) == 2, shown.stdout


@pytest.mark.parametrize("command", [validate, lint])
def test_notes_on_the_policies_of_a_server(command: object, folder: Path) -> None:
    config = folder / "queuegate.yaml"
    text = "policy: {path: queues.xml, yarn_site: ours.xml}\n"
    config.write_text(f"{text}partitions: {{default: {{semantics: hadoop}}}}\n")
    with pytest.MonkeyPatch.context() as changed:
        changed.chdir(folder)
        result = CliRunner().invoke(command, ["--config", str(config)])  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    starts = [line.partition(": note: ")[0] for line in result.stdout.splitlines()]
    assert [start.rpartition("/")[2] for start in starts] == ["ours.xml:3:38", "ours.xml:4:51"]


CONFIGURED = "org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer"
QUEUEGATE = "io.queuegate.hadoop.QueuegateYarnAuthorizer"
NOBODY = 'yarn.admin.acl: - user "yarn"'


@pytest.mark.parametrize(
    ("old", "new", "semantics", "expected", "line"),
    [
        ("site", "site", "hadoop", "", 0),
        ("ours", "ours", "hadoop", "", 0),
        ("site", "ours", "hadoop", f'{AUTHORIZER}: "{CONFIGURED}" becomes "{QUEUEGATE}"', 4),
        ("ours", "unknown", "hadoop", f'{AUTHORIZER}: "{QUEUEGATE}" becomes an unknown class', 4),
        ("site", "closed", "hadoop", NOBODY, 3),
        ("ours", "ours-closed", "hadoop", f"{NOBODY} (used by YARN only)", 3),
        ("ours", "ours-closed", "documented", NOBODY, 3),
    ],
)
def test_changes(
    old: str, new: str, semantics: str, expected: str, line: int, folder: Path
) -> None:
    file = str(folder / "queues.xml")
    sites = [f"--old-yarn-site={folder / old}.xml", f"--yarn-site={folder / new}.xml"]
    arguments = [file, file, *sites, "--semantics", semantics]
    result = CliRunner().invoke(diff, [*arguments, "-o", "json"])
    assert result.exit_code == bool(expected), result.output
    changes = [each["change"] for each in json.loads(result.stdout)["differences"]]
    assert changes == [expected] * bool(expected)
    annotated = CliRunner().invoke(diff, [*arguments, "-o", "github"]).stdout
    assert annotated.count("::warning") == len(changes)
    assert f"{folder / new}.xml,line={line}," in annotated or not expected
    by_people = CliRunner().invoke(diff, [*arguments, "--people"])
    assert (f'note: partition "default": {expected}' in by_people.stderr) is bool(expected)
