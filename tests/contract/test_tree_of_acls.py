"""The tree shows the names that a check compares, whatever the text of the ACL looks like."""

from pathlib import Path

import pytest

from queuegate.cli import main
from queuegate.policy.yarn_acl import Semantics, parse_yarn

ACLS = (
    *(
        "ann x,mary\n analysts,Data Platform",
        "ann, bob  g",
        " *",
        "* x",
        "a\tb,c d e,f",
        "~hue,sue",
    ),
    *("\n  ann\n  staff\n", ",,ann,, ,g,", "ann *,g"),
)


@pytest.mark.parametrize("acl", ACLS)
@pytest.mark.parametrize("semantics", Semantics)
def test_names(
    acl: str, semantics: Semantics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fair-scheduler.xml"
    file.write_text(
        "<allocations><queue name='root'><aclSubmitApps> </aclSubmitApps><aclAdministerApps> "
        f"</aclAdministerApps><queue name='a'><aclSubmitApps>{acl}</aclSubmitApps></queue></queue>"
        "</allocations>"
    )
    assert main(["tree", "--policy", str(file), "--semantics", str(semantics)]) == 0
    shown = capsys.readouterr().out.splitlines()[1].removeprefix("└─ a").strip()
    expected = parse_yarn(acl, semantics)
    names: dict[str, set[str]] = {}
    for part in filter(None, shown.split("; ")):
        kind, _, listed = part.partition(" ")
        names[kind.removesuffix("s")] = set(listed.split(", "))
    everyone = names.pop("everyone", None)
    assert (everyone is not None) is expected.allows_all
    assert names == {
        kind: {name.replace("\t", "\\t") for name in listed}
        for kind, listed in (
            ("user", expected.users),
            ("service", expected.proxies),
            ("group", expected.groups),
        )
        if listed
    }
