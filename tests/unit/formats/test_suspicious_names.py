"""The lint rules for names and texts that cannot be meant, in all formats."""

import time
from html import escape
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import AclNames
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.source_text import split_lines
from queuegate_server.formats.yarn.load import YarnOptions

REPOSITORY = Path(__file__).parents[3]
FAIR = "fair-scheduler"
CAPACITY = "capacity-scheduler"
YUNIKORN = "yunikorn"
PREFIX = "yarn.scheduler.capacity.root"


def properties(**values: str) -> str:
    """Return a capacity-scheduler.xml; `__` in a name stands for a dot."""
    texts = {"queues": "a", "acl_submit_applications": " ", "acl_administer_queue": " ", **values}
    return "<configuration>{}</configuration>".format(
        "".join(
            f"<property><name>{PREFIX}.{name.replace('__', '.')}</name>\n"
            f"<value>{escape(text)}</value></property>"
            for name, text in texts.items()
        )
    )


def document(format_name: str, acl: str) -> str:
    """Return a policy with an ACL of queue `root.a`, on the fourth line or below."""
    if format_name == YUNIKORN:
        queue = {"name": "a", "submitacl": acl}
        root = {"name": "root", "queues": [queue]}
        return yaml.safe_dump(
            {"partitions": [{"name": "default", "queues": [root]}]}, allow_unicode=True
        )
    if format_name == CAPACITY:
        return properties(a__acl_submit_applications=acl)
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    return (
        f"<allocations>\n<queue name='root'>{closed}\n<queue name='a'>\n"
        f"<aclSubmitApps>{escape(acl)}</aclSubmitApps></queue></queue></allocations>"
    )


def lint(
    format_name: str,
    acl: str,
    names: AclNames = AclNames.YUNIKORN,
    semantics: Semantics = Semantics.DOCUMENTED,
    known: frozenset[str] = frozenset(),
) -> list[Diagnostic]:
    data = document(format_name, acl).encode()
    yarn = YarnOptions(semantics=semantics, known_names=known)
    options = FormatOptions(acl_names=names, yarn=yarn)
    found = check_file(format_name, data, "f", options, with_lint=True)
    for each in found:
        assert each.remedy, each
        assert str(each).isprintable()
    return found


MISTAKES = [
    *("alice;bob", "alice|bob", "alice\uff0cbob", "alice、bob", "alice\u3000etl", "alice\u00a0etl"),
    *('"alice,bob"', "'alice' 'etl'", "`alice`", "“alice”", r"\"alice\"", "alice\\", "CORP\\alice"),
    *("alice\u200b", "\ufeffalice", "ali\u00adce", "\u202ealice", "alice\u2060"),
    *("{{ acl }}", "{{acl}}", "{% acl %}", "%ACL%", "$user", "@ACL@", "<users>", "__ACL__"),
    *("%(acl)s", "[users]", "{users}", "$(ACL)", "#{acl}"),
    *("alice@CORP.EXAMPLE", "alice@CORP", "yarn/host1.corp@CORP.EXAMPLE"),
    *("cn=etl,ou=groups,dc=corp", "uid=alice,ou=people", " CN=etl,OU=groups", "cn=Etl Team,ou=x"),
    *("sue ,john", "sue, john", "sue,", ",sue", "sue,,john", "sue etl,", "sue ,etl"),
    *("@etl", " @etl", "%etl", " +etl"),
    *("none", "None", "NONE", "all", "ALL", "everyone", "nobody", "null", "-", " none", "false"),
    *("user:alice", "group:etl", "u=alice", "team-*", " etl*"),
    *("Alice,alice", "a Etl,etl", "a b c", "a b c d"),
    *("!alice", "-alice", "^alice etl", "# alice", "#alice", "alice#ops", "alice%20ops", " ~etl"),
    *(
        "(alice)",
        "(alice,bob)",
        "[alice,bob]",
        '["alice"]',
        "{alice,bob}",
        "[[acl]]",
        "alice [etl]",
    ),
    *("CHANGE_ME", "changeme", "TODO", "YOUR_USER", "UNDEFINED", "alice,tbd", " REPLACE_ME_PLEASE"),
    *("ETL_PLACEHOLDER", "SOME_USER", "EXAMPLE_GROUP", "REPLACE_USER", "INSERT-NAMES"),
    *("GROUP_NAME", "xxx", "???", "alice,...", "my-group", "users_here", "~", "~ etl", "~,alice"),
    *("alice&bob", "alice & etl", "a &bob"),
    *("not alice", "except etl", "al?ce", "team-[ab]", "alice&nbsp;etl", "alice&#32;etl"),
    *("none etl", "alice none", "alice,none", "- etl", "alice everyone", "alice n/a", "alice,null"),
    *("e\u0301ric", "ops\uff20corp"),
    *("REPLACE_WITH_YOUR_TEAM", "fill-in", "your_ldap_group", "CHANGE ME", "alice your team"),
    *("ops&dev,bob", "alice&&bob", "-- alice", "deny alice", "alice allow:bob", "deny:bob"),
    *("al\u0456ce", "\u0430lice", "alice \u0435tl", "\u039fps", "alice\uff41", "CORP.\U0001d41aa"),
]


@pytest.mark.parametrize("format_name", [FAIR, CAPACITY, YUNIKORN])
@pytest.mark.parametrize("acl", MISTAKES)
def test_a_mistake_is_reported(format_name: str, acl: str) -> None:
    found = lint(format_name, acl)
    assert found
    assert {each.queue for each in found} <= {"root.a", ""}
    lines = split_lines(document(format_name, acl))
    for each in found:
        assert each.file == "f"
        assert "acl" in lines[each.line - 1].lower() or "value" in lines[each.line - 1]


@pytest.mark.parametrize("format_name", [FAIR, CAPACITY, YUNIKORN])
@pytest.mark.parametrize(
    "acl",
    [
        *("alice", " etl", "alice,bob etl,ops", "svc-spark_01", "alice etl-team", "alice.smith"),
        *("alice alice", "hive hive", "HOST$", "john_doe,jane-doe a_b", "allan", "nonet", "team1"),
        *("alice@corp.example", "root", "A,b", "notnull", "cn", "dc ou", "alice nobody", "all etl"),
        *("changes", "todor", "xx", "yourself", "heretic", "a-b-c", "thereuser", "alice,unsetl"),
        *("change-management", "examples", "my-etl", "some-analysts", "holder", "cross-insert"),
        *("insert-svc", "replace_worker", "example_etl", "change-in-control", "svc-here", "tba"),
        *("fixme-bot", "your-voice", "insert-names-etl", "todo-app", "exhere"),
    ],
)
def test_names_are_not_mistakes(format_name: str, acl: str) -> None:
    assert lint(format_name, acl) == []


@pytest.mark.parametrize(
    "acl",
    [
        *("auth0|62f", "CORP\\alice", "alice@CORP.EXAMPLE", "yarn/host1@CORP.EXAMPLE"),
        *(" /org/team", " 0f3a-11", "o'brien", "alice@corp", "system:serviceaccount:ns:sa"),
        *("ann_corp.com#EXT#@x.onmicrosoft.com", " \u043e\u0442\u0434\u0435\u043b-it", " C#-team"),
    ],
)
def test_names_that_acl_names_any_accepts(acl: str) -> None:
    """YuniKorn drops some of them; nothing else is wrong with them."""
    assert all("YuniKorn drops" in each.message for each in lint(YUNIKORN, acl, AclNames.ANY))


@pytest.mark.parametrize("names", [AclNames.EXTENDED, AclNames.ANY])
@pytest.mark.parametrize("acl", ["alice;bob", '"alice"', "user:alice", "none", "alice,", "{{acl}}"])
def test_mistakes_with_other_names(acl: str, names: AclNames) -> None:
    found = lint(YUNIKORN, acl, names)
    assert any("YuniKorn drops" not in each.message for each in found)


@pytest.mark.parametrize(
    ("acl", "message", "remedy"),
    [
        ("alice;bob", 'a ";" does not separate names', "separate names with commas"),
        ("CORP\\alice", "the backslash in", 'write "alice" if that is the user\'s name'),
        ("yarn/h@CORP.EXAMPLE", "a Kerberos principal", 'write "yarn" if that'),
        ("cn=etl,ou=x", "distinguished name is split", 'such as "etl"'),
        ("none", "does not mean nobody", "for nobody write a single space"),
        ("all", "does not mean everyone", "for everyone write *"),
        ("%ACL%", '"%ACL%" looks like an unrendered template', "deploy the rendered file"),
        ("@etl", "does not mark a group", 'write "etl" after the space'),
        ("!bob", "it has no special meaning here", "an ACL only grants access"),
        ("# alice", 'the "#" is part of the name "#"', "an ACL only grants access"),
        ("bob#ops", "an ACL has no comments", "if it begins a comment, remove the comment"),
        ("-- alice", 'the "-" is part of the name "--"', "remove it, or the name"),
        ("deny alice", 'the "deny" is part of the name "deny"', "remove it, or the name"),
        ("alice allow:bob", '"allow:" in "allow:bob"', "write only names"),
        ("~", '"~" names nobody', "write a service's name after it"),
        ('["alice"]', "the brackets in", "without brackets and quotes"),
        ("TODO", '"TODO" looks like a placeholder', "write the name"),
        ("a%20b", '"%20" in "a%20b" stands for itself', "write the character that it encodes"),
        ("al\u0456ce", "contains U+0456 next to a Latin letter", "retype the name"),
    ],
)
def test_messages_of_yarn(acl: str, message: str, remedy: str) -> None:
    (found,) = lint(FAIR, acl)
    assert (found.line, found.column) == (4, 1)
    assert message in found.message
    assert remedy in found.remedy


@pytest.mark.parametrize("format_name", [FAIR, CAPACITY])
@pytest.mark.parametrize(
    ("acl", "message"),
    [
        ("alice CORP\\domain users", 'the backslash in "CORP\\\\domain users" is part of'),
        ('alice "domain users"', "the quotes in "),
        ("alice \u201cdomain users\u201d", "the quotes in "),
        ("x domain users;data eng", 'a ";" does not separate names'),
        ("none domain users", "the name of a user here, and does not mean nobody"),
        ("alice @domain users", "does not mark a group"),
        ("alice domain users,Domain Users", "is also spelled"),
        ("alice [domain users]", "the brackets in"),
        ("alice domain us\u200bers", "an invisible character"),
        ("alice group:domain users", '"group:" in'),
        ("alice g h", "is ambiguous"),
        (" *", "in Hadoop everyone"),
        ("alice, bob", "the space beside the comma"),
        ("alice\n domain users", "a line break or tab"),
        ("alice domain users", ""),
        (" domain users,data eng", ""),
        ("alice data eng, R&D team", ""),
        ("alice research & development,sales (EU),sales [US]", ""),
        (" Sales - EMEA", ""),
        (" Dev (EU)", ""),
        (" Sales & Marketing", ""),
        (" R&D", ""),
        ("AT&T Q&A,P&L", ""),
        (" C#,ops#1", ""),
        ("\u03b2test,\u03bcservice \u043e\u0442\u0434\u0435\u043bIT", ""),
        ("x IT\u043e\u0442\u0434\u0435\u043b", ""),
        (" jos\u00e9", ""),
        (" jose\u0301", "contains a combining mark, U+0301"),
        (" Hadoop Admins", "is ambiguous"),
        ("alice CHANGE ME", "looks like a placeholder"),
        ("alice C# devs", "an ACL has no comments"),
        ("~hue  etl", ""),
    ],
)
def test_names_with_spaces_in_hadoop(format_name: str, acl: str, message: str) -> None:
    """Hadoop separates groups only with commas."""
    found = lint(format_name, acl, semantics=Semantics.HADOOP)
    assert [message in each.message for each in found] == [True] * bool(message)


@pytest.mark.parametrize("format_name", [FAIR, CAPACITY])
@pytest.mark.parametrize(
    ("acl", "message"),
    [
        ("alice data engineers", ""),
        (" Hadoop Admins", ""),
        (" data engineers,Hadoop Admins", ""),
        (" HR/Payroll,C# devs,R&D team", ""),
        ("none", ""),
        ("Alice,alice", ""),
        ("g h", ""),
        ("alice g h", '"alice g h" is ambiguous'),
        ("alice g h,etl", '"alice g h,etl" is ambiguous'),
        ("data platform team", ""),
        ("bob|eve data engineers", 'a "|" does not separate names'),
        ("ALICE,alice", "is also spelled"),
        (" zero\u200bwidth", "invisible character"),
        ("alice, etl", "the space beside the comma"),
    ],
)
def test_known_names_are_not_suspicious(format_name: str, acl: str, message: str) -> None:
    known = frozenset({"alice", "Alice", "etl", "g", "h", "none", "data engineers", "R&D team"})
    known |= {"Hadoop Admins", "HR/Payroll", "C# devs", "data platform team"}
    found = lint(format_name, acl, semantics=Semantics.HADOOP, known=known)
    assert [message in each.message for each in found] == [True] * bool(message)


@pytest.mark.parametrize(
    ("acl", "count"),
    [
        *(("insert-team", 0), ("bob insert-team", 0), ("none", 0), ("Alice,alice", 0)),
        *(("insert-team,replace-me", 1), ("alice,insert-user", 1), ("ALICE,alice", 1)),
    ],
)
def test_known_names_are_not_suspicious_in_yunikorn(acl: str, count: int) -> None:
    known = frozenset({"alice", "Alice", "none", "insert-team"})
    assert len(lint(YUNIKORN, acl, known=known)) == count


@pytest.mark.parametrize("acl", [" R&D", "Q&A", " C#", "ops#1"])
def test_names_with_symbols_in_yunikorn(acl: str) -> None:
    assert all("YuniKorn drops" in each.message for each in lint(YUNIKORN, acl, AclNames.ANY))


@pytest.mark.parametrize(
    ("acl", "remedy"),
    [
        ("alice;bob", "separate names with commas"),
        ('"alice"', "remove the quotes, and backslashes before them"),
        ("CORP\\alice", 'write "alice" if that is the user\'s name, or to accept it, set'),
        ("a|b", "separate names with commas, or to accept it, set partitions."),
        ("{{ acl }}", "deploy the rendered file, or write the names"),
        ("none", 'for nobody write " " in quotes'),
    ],
)
def test_remedies_of_yunikorn(acl: str, remedy: str) -> None:
    assert any(each.remedy.startswith(remedy) for each in lint(YUNIKORN, acl))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        *(("submitAcl", "submitacl"), ("submit_acl", "submitacl"), ("adminacls", "adminacl")),
        *(("aclSubmitApp", "submitacl"), ("acl_submit_applications", "submitacl")),
        *(("aclAdministerApps", "adminacl"), ("adminAcl", "adminacl")),
    ],
)
def test_keys_of_yunikorn(key: str, meant: str) -> None:
    text = document(YUNIKORN, "sue").replace("submitacl", key)
    (found,) = check_file(YUNIKORN, text.encode(), "f", with_lint=True)
    assert found.remedy in {f"did you mean {meant}?", f"write {meant}"}
    assert split_lines(text)[found.line - 1][found.column - 1 :].startswith(key)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        *(("submitAcl", "aclSubmitApps"), ("aclSubmitApp", "aclSubmitApps")),
        *(("submitacl", "aclSubmitApps"), ("acl_submit_applications", "aclSubmitApps")),
        *(("adminacls", "aclAdministerApps"), ("adminAcl", "aclAdministerApps")),
    ],
)
def test_keys_of_yarn(key: str, meant: str) -> None:
    text = document(FAIR, "sue").replace(
        "<queue name='a'>\n<aclSubmitApps>", "<queue name='a'>\n<X>"
    )
    text = text.replace("<X>sue</aclSubmitApps>", f"<{key}>sue</{key}>")
    (found,) = check_file(FAIR, text.encode(), "f", with_lint=True)
    assert (found.line, found.remedy) == (4, f"did you mean {meant}?")
    names = {
        "aclSubmitApps": "acl_submit_applications",
        "aclAdministerApps": "acl_administer_queue",
    }
    if key != names[meant]:
        text = properties(**{f"a__{key}": "sue"})
        (found,) = check_file(CAPACITY, text.encode(), "f", with_lint=True)
        assert found.remedy == f"did you mean {names[meant]}?"


def test_a_key_of_a_queue_without_its_prefix() -> None:
    text = properties(a__acl_submit_applications="sue").replace(
        f"{PREFIX}.a.acl", "yarn.schedular.capacity.root.a.acl"
    )
    (found,) = check_file(CAPACITY, text.encode(), "f", with_lint=True)
    assert "is not a key of a queue: it is ignored" in found.message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a;b", 'a ";" does not separate queues'),
        ("a b", 'a " " does not separate queues'),
        ("a\tb", "does not separate queues"),
        ("a\nb", "does not separate queues"),
        ("a\xa0b", "does not separate queues"),
        ("a\u3000b", "does not separate queues"),
        ("a|b", 'a "|" does not separate queues'),
        ("a\uff0cb", 'a "\uff0c" does not separate queues'),
        ("a\u200b", "invisible character, U+200B"),
        ('"a"', "quotes"),
        ("[a]", "brackets"),
        ("\u0430dhoc", "U+0430 next to a Latin letter"),
        ("a (b)", 'a " " does not separate queues'),
        ("alice&bob", 'a "&" does not separate queues'),
        ("R&D", ""),
        ("a-b_c@d", ""),
        ("r\xe9sum\xe9", ""),
    ],
)
def test_names_of_queues(name: str, words: str) -> None:
    closed = "".join(
        f"<property><name>{PREFIX}.{key}</name><value> </value></property>"
        for key in ("acl_submit_applications", "acl_administer_queue")
    )
    queues = f"<property><name>{PREFIX}.queues</name><value>x, {escape(name)}</value></property>"
    lists = f"<configuration>{closed}\n{queues}</configuration>"
    acls = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    stated = escape(name).replace("\t", "&#9;").replace("\n", "&#10;")
    element = f'<allocations><queue name="root">{acls}\n<queue name="{stated}"/>'
    element += "</queue></allocations>"
    for format_name, text in ((CAPACITY, lists), (FAIR, element)):
        warnings = check_file(format_name, text.encode(), "f", with_lint=True)
        assert [words in each.message for each in warnings] == [True] * bool(words)
        assert all(each.line == 2 and each.queue == f"root.{name}" for each in warnings)
        if "separate" in words:
            in_list, in_element = "separate queues with commas in a list", "its own element"
            assert (in_list in warnings[0].remedy) is (format_name == CAPACITY)
            assert (in_element in warnings[0].remedy) is (format_name == FAIR)


def test_the_site_file() -> None:
    values = {"yarn.acl.enable": "true", "yarn.admin.acl": "yarn;alice"}
    lines = (f"<property><name>{n}</name><value>{v}</value></property>" for n, v in values.items())
    text = "<configuration>\n{}\n</configuration>".format("\n".join(lines))
    (found,) = check_file("yarn-site", text.encode(), "f", with_lint=True)
    assert 'a ";" does not separate names' in found.message
    assert found.line == 3


EXAMPLES = [
    *((file, YUNIKORN) for file in (REPOSITORY / "examples").rglob("queues*.yaml")),
    *((file, FAIR) for file in (REPOSITORY / "examples").rglob("fair-scheduler.xml")),
    *((file, CAPACITY) for file in (REPOSITORY / "examples").rglob("capacity-scheduler.xml")),
]


@pytest.mark.parametrize(("file", "format_name"), EXAMPLES, ids=lambda each: str(each)[-40:])
def test_examples_have_no_mistakes(file: Path, format_name: str) -> None:
    found = check_file(format_name, file.read_bytes(), file.name, with_lint=True)
    assert [str(each) for each in found if "one name" in each.message] == []
    assert [str(each) for each in found if "part of the name" in each.message] == []


ODD = st.text(
    alphabet=st.sampled_from([*" ,;|*\\\"'`@%${}<>_=-/.()\t\n\u200b\u3000\uff0caA1"]), max_size=30
)


@given(ODD, st.sampled_from([FAIR, CAPACITY, YUNIKORN]), st.sampled_from([*AclNames]))
def test_any_text(acl: str, format_name: str, names: AclNames) -> None:
    """Lint never raises, and each position is one of the file."""
    found = lint(format_name, acl, names)
    lines = split_lines(document(format_name, acl))
    for each in found:
        assert 0 <= each.line <= len(lines)
        assert each.line == 0 or 1 <= each.column <= len(lines[each.line - 1]) + 1


@pytest.mark.parametrize("format_name", [FAIR, YUNIKORN])
@pytest.mark.parametrize("shape", ["{}", "x a{} y", "x y {}"])
@pytest.mark.parametrize(
    "part",
    [
        *("{", "$", "${", "<", "%a", "@a", "__A", "[", "cn=", ",", "a@", "a\\"),
        *("&", "&a", "#", "]", "-here", "x", "your-", "\u0430", "a\u0430", "a/"),
        *("\uff20", "\xd7", "\u0301", "e\u0301", " &", "your-user-", "user-", "a&b"),
    ],
)
def test_time_is_linear(format_name: str, part: str, shape: str) -> None:
    """A factor of 16 in size may not become one of 256 in time, by the processor's clock."""

    def seconds(size: int) -> float:
        data = document(format_name, shape.format(part * size)).encode()
        options = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP))
        start = time.process_time()
        check_file(format_name, data, "f", options, with_lint=True)
        return time.process_time() - start

    seconds(100)
    assert seconds(160_000) < 100 * max(seconds(10_000), 0.02)
