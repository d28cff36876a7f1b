"""Whether `diff --people` equals comparing the checks of every user before and after a change.

`python -m tests.integration.ldap.people_difference [USERS] [QUEUES]`; by default 20,000 users, 200
queues.
"""

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from queuegate import Access, Check, Client, Decision
from queuegate_server.cli.main import command_group
from queuegate_server.cli.users_from import DIRECTORY
from tests.integration.ldap.who_can import SEED, directory_of, policy_of, served
from tests.support import atomic_files
from tests.support.eventually import eventually

Users = dict[tuple[str, str], set[str]]
"""By queue and access."""


def changed(policy: str, users: int, groups: int, rng: random.Random) -> str:
    """Return the policy with other names in a third of its queues, and another administrator."""
    lines = policy.replace("adminacl: u0", 'adminacl: "u0,u1 g1"').split("\n")
    for number, line in enumerate(lines):
        if "submitacl" in line and rng.random() < 0.3:
            acl = f"u{rng.randrange(users)} g{rng.randrange(groups)}"
            acl = rng.choice([acl, acl, "*", ""])
            head, separator, rest = line.partition('submitacl: "')
            lines[number] = head + separator + acl + rest[rest.index('"') :]
    return "\n".join(lines)


def allowed(client: Client, users: Sequence[str], paths: Sequence[str]) -> Users:
    """Return who may use each queue, by checks."""
    found: Users = {}
    for path in paths:
        for access in Access:
            results = client.check_many(Check(user, path, access=access) for user in users)
            found[path, str(access)] = set()
            for user, result in zip(users, results, strict=True):
                assert isinstance(result, Decision), result
                if result:
                    found[path, str(access)].add(user)
    return found


def compare(folder: Path, users: int, queues: int) -> int:
    """Compare both for a random directory and change; return how many users gain or lose."""
    rng = random.Random(SEED)
    groups = max(4, users // 100)
    ldif = directory_of(users, groups, rng)
    policy, paths = policy_of(users, groups, queues, rng)
    old, new, names = (folder / name for name in ("old.yaml", "new.yaml", "names"))
    old.write_text(policy)
    new.write_text(changed(policy, users, groups, rng))
    people = [f"u{number}" for number in range(users)]
    names.write_text("\n".join(people))
    with served(folder / "run", ldif, policy) as client:
        before = allowed(client, people, paths)
        revision = client.get_policy().revision
        atomic_files.replace(folder / "run" / "queues.yaml", new.read_text())
        eventually(lambda: client.get_policy().revision > revision, expected=True)
        after = allowed(client, people, paths)
        command = ["diff", "--people", "-o", "json", str(old), str(new)]
        command += ["--config", str(folder / "run" / "queuegate.yaml"), "--users-from"]
        done, of_directory = (
            CliRunner().invoke(command_group(), [*command, source])
            for source in (str(names), DIRECTORY)
        )
    assert done.exit_code == 1, done.output
    assert of_directory.stdout == done.stdout, of_directory.stderr
    changes = {(each["queue"], each["access"]): each for each in json.loads(done.stdout)["changes"]}
    count = 0
    for path, access in before:
        for kind, one, other in (("gained", after, before), ("lost", before, after)):
            inherited = one["root", access] - other["root", access] if path != "root" else set()
            expected = one[path, access] - other[path, access] - inherited
            listed = changes[path, access][kind]["subjects"] if (path, access) in changes else ()
            found = {subject.removeprefix("user:") for subject in listed} - inherited
            assert found == expected, (path, access, kind)
            count += len(found)
    return count


def main(users: int = 20_000, queues: int = 200) -> None:
    with tempfile.TemporaryDirectory() as folder:
        count = compare(Path(folder), users, queues)
    print(f"{users} users, {queues} queues: {count} gains and losses as checked")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
