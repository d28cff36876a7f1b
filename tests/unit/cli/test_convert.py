"""`queuegate-server convert`: its output, and its exit status."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.convert import convert
from queuegate_server.formats.registry import load_policy

EXACT = "<allocations><queue name='a'><aclSubmitApps>bob g</aclSubmitApps></queue></allocations>"
TWINS = "<allocations><queue name='a'/><queue name='A'/></allocations>"
WRITTEN = """\
# Access to queues, from "<stdin>", read as documented.
# Not converted: resources, limits, placement, and group resolvers.
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: 'a'
            submitacl: 'bob g'
"""


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(convert, arguments, input=stdin)


def test_an_exact_conversion_reports_nothing() -> None:
    result = run("-", "--to", "yunikorn", stdin=EXACT)
    assert (result.stdout, result.stderr, result.exit_code) == (WRITTEN, "", 0)


def test_losses_are_reported_on_stderr() -> None:
    result = run("-", stdin=TWINS)
    assert result.exit_code == 1
    assert result.stderr.startswith(
        '<stdin>:1:14: warning: "a" differs from a sibling only in case'
    )
    assert not load_policy("yunikorn", result.stdout.encode(), "f").diagnostics


def test_a_loss_in_a_manifest_has_the_columns_of_the_manifest() -> None:
    manifest = "kind: ConfigMap\napiVersion: v1\ndata:\n  fair-scheduler.xml: |\n    "
    result = run("-", stdin=manifest + TWINS)
    assert result.exit_code == 1
    assert result.stderr.startswith("<stdin>:5:18: warning: ")


def test_options_about_the_cluster(tmp_path: Path) -> None:
    site = tmp_path / "yarn-site.xml"
    site.write_text(Path("examples/yarn-site.xml").read_text())
    result = run("-", "--yarn-site", str(site), "--daemon-user", "yarn", stdin=EXACT)
    assert "adminacl: 'Bob,yarn hadoopadmgroup,yarnadmgroup'" in result.stdout
    assert result.stderr.startswith("note: yarn.admin.acl is part of the admin ACL of root")
    assert result.exit_code == 0
    open_root = run("-", "--semantics", "hadoop", stdin=EXACT)
    assert open_root.stdout.count("'*'") == 2
    text = EXACT.replace("bob", "a:b")
    assert run("-", stdin=text).exit_code == 1
    assert run("-", "--acl-names", "extended", stdin=text).exit_code == 0


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("fair-scheduler.xml", "yarn-site.xml"),
        ("capacity-scheduler.xml", "capacity-yarn-site.xml"),
    ],
)
def test_the_examples_are_converted_whole(name: str, site: str, tmp_path: Path) -> None:
    output = tmp_path / "queues.yaml"
    options = ("--yarn-site", f"examples/{site}", "--output-file", str(output))
    result = run(f"examples/{name}", "--to", "yunikorn", *options)
    assert (result.stdout, result.exit_code) == ("", 0)
    assert result.stderr in Path("docs/how-to/yarn-to-yunikorn.md").read_text()
    assert not load_policy("yunikorn", output.read_bytes(), "f").diagnostics


def test_a_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    output = tmp_path / "queues.yaml"
    assert run("-", "--output-file", str(output), stdin=EXACT).stdout == ""
    assert output.read_text() == WRITTEN
    again = run("-", "--output-file", str(output), stdin=TWINS)
    assert again.exit_code == 2
    assert "exists; --force overwrites it" in again.stderr
    assert output.read_text() == WRITTEN
    assert run("-", "--output-file", str(output), "--force", stdin=TWINS).exit_code == 1
    assert "'a'" not in output.read_text()
    missing = run("-", "--output-file", str(tmp_path / "no" / "file"), stdin=EXACT)
    assert (missing.exit_code, "cannot be written" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ([], "", "Missing argument"),
        (["-"], "partitions: []", "not a YARN scheduler file"),
        (["-"], "<allocations><queue/></allocations>", "the queue has no name"),
        (["-", "--to", "yarn"], EXACT, "Invalid value for '--to'"),
        (["nosuch.xml"], "", "cannot be read: No such file"),
        (["-", "--yarn-site", "nosuch.xml"], EXACT, "cannot be read: No such file"),
        (["examples/yarn-site.xml", "--semantics", "hadoop"], "", "root.queues lists no queue"),
    ],
)
def test_wrong_usage_and_invalid_input(arguments: list[str], stdin: str, words: str) -> None:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("stdin", ["partitions: []", ""])
def test_a_wrong_file_is_no_wrong_usage(stdin: str) -> None:
    assert run("-", stdin=stdin).stderr == (
        "Error: <stdin>: not a YARN scheduler file: pass a fair-scheduler.xml or a"
        " capacity-scheduler.xml\n"
    )
    assert run("nosuch.xml").stderr.startswith("Error: nosuch.xml: cannot be read")
