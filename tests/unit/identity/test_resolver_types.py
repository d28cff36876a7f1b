"""Types of resolver: ours, and those of other distributions that are really installed."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from queuegate_server.identity import resolver_types
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolver_types import BadResolverType
from queuegate_server.identity.resolvers.nss import NssResolver
from tests.support.rows import rows

MODULE = """
    from queuegate_server.identity.resolver import KnownUser
    from queuegate_server.identity.options import ResolverOptions

    class Options(ResolverOptions):
        suffix: str = "-team"

    class Teams:
        Options = Options

        def __init__(self, options):
            self.options = options

        async def open(self):
            pass

        async def resolve(self, user):
            return KnownUser((user + self.options.suffix,))

        async def close(self):
            pass

    class NoOptions:
        pass

    class WrongOptions:
        Options = dict

    class NoMethods:
        Options = Options
        resolve = None

        async def open(self):
            pass
"""


class _Installed:
    """A folder on the import path with distributions in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "corp_teams.py").write_text(textwrap.dedent(MODULE))

    def distribution(self, name: str, entry_points: dict[str, str]) -> None:
        info = self._folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[queuegate.resolvers]", *lines, ""]))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Installed:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "corp_teams", raising=False)
    return _Installed(tmp_path)


OURS = {"entra", "keycloak", "ldap", "no_groups", "none", "okta", "os", "test"}


def listed(*more: str) -> str:
    """Return how a message lists our types and others."""
    return ", ".join(f"`{name}`" for name in sorted(OURS | {*more}))


def test_our_types() -> None:
    assert resolver_types.types() == OURS
    for name in resolver_types.types():
        assert issubclass(resolver_types.resolver_type(name).Options, ResolverOptions)


@pytest.mark.parametrize("name", ["nis", "LDAP", "Os", " none", "corp"])
def test_an_unknown_type_names_the_known_ones(name: str) -> None:
    with pytest.raises(BadResolverType) as caught:
        resolver_types.resolver_type(name)
    assert str(caught.value) == f"this build has no `{name}` resolver; it has {listed()}"
    with pytest.raises(BadResolverType, match=f"it has {listed('chain')}"):
        resolver_types.options_type(name)


async def test_a_type_of_another_distribution(installed: _Installed) -> None:
    installed.distribution("corp-teams", {"teams": "corp_teams:Teams"})
    assert resolver_types.types() == {*OURS, "teams"}
    teams = resolver_types.resolver_type("teams")
    options = teams.Options.model_validate({"suffix": "-x", "max_concurrent": 3})
    assert options.max_concurrent == 3
    resolver = teams(options)
    assert await resolver.resolve("sue") == KnownUser(("sue-x",))
    with pytest.raises(BadResolverType, match=f"it has {listed('teams')}"):
        resolver_types.resolver_type("nis")


def test_another_distribution_cannot_replace_a_type_of_ours(installed: _Installed) -> None:
    installed.distribution("corp-teams", {"os": "corp_teams:Teams", "chain": "corp_teams:Teams"})
    assert resolver_types.types() == OURS
    assert resolver_types.resolver_type("os") is NssResolver
    assert resolver_types.options_type("chain").__name__ == "ChainOptions"
    # A policy cannot ask for a chain.
    with pytest.raises(BadResolverType, match="no `chain` resolver"):
        resolver_types.resolver_type("chain")


@rows
def test_a_broken_type_of_another_distribution(
    entry_point: str, message: str, installed: _Installed
) -> None:
    installed.distribution("corp-teams", {"teams": entry_point})
    assert "teams" in resolver_types.types(), "listing imports nothing"
    with pytest.raises(BadResolverType) as caught:
        resolver_types.resolver_type("teams")
    assert str(caught.value) == f"the resolver `teams` of corp-teams {message}"


def test_two_distributions_with_one_type(installed: _Installed) -> None:
    installed.distribution("corp-teams", {"teams": "corp_teams:Teams"})
    installed.distribution("corp-old", {"teams": "corp_teams:NoOptions"})
    with pytest.raises(BadResolverType) as caught:
        resolver_types.resolver_type("teams")
    assert str(caught.value) == (
        "the resolver `teams` comes from corp-old and corp-teams: remove one"
    )


def test_the_registry_imports_no_resolver_before_it_is_asked_for() -> None:
    program = (
        "import sys; from queuegate_server.identity import resolver_types; resolver_types.types();"
        "resolver_types.resolver_type('none');"
        "print(sorted(name for name in sys.modules if '.resolvers.' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "['queuegate_server.identity.resolvers.local']"
