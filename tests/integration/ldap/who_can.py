"""A directory and a policy at random, and whether who-can equals checking every user.

`python -m tests.integration.ldap.who_can [USERS] [QUEUES]`; by default 20,000 users, 200 queues.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from queuegate import Access, Check, Client, Decision
from tests.support.servers import ldap_entries as entries
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, SERVICE, running_slapd

SEED = 19
_LIMITS = "sizelimit unlimited\n"


def directory_of(users: int, groups: int, rng: random.Random) -> str:
    """Return entries: groups of users, and groups of groups up to three levels deep."""
    people = [f"u{number}" for number in range(users)]
    parts = [entries.base(), *(entries.person(user) for user in people)]
    for number in range(groups):
        count = rng.choice([1, 3, max(1, users // 50), max(1, users // 10)])
        members = [entries.dn(user) for user in rng.sample(people, count)]
        if number >= groups // 2:
            below = rng.sample(range(number // 2, number), min(2, number // 2))
            members += [entries.group_dn(f"g{each}") for each in below]
        parts.append(entries.group(f"g{number}", *members))
    return "".join(parts)


def policy_of(users: int, groups: int, queues: int, rng: random.Random) -> tuple[str, list[str]]:
    """Return a queues.yaml, and the paths of its queues."""
    lines = ["partitions:", "  - name: default", "    queues:", "      - name: root"]
    lines += ["        adminacl: u0", "        queues:"]
    paths = ["root"]
    for number in range(queues - 1):
        listed = ",".join(f"u{rng.randrange(users)}" for _ in range(rng.randrange(3)))
        groups_listed = ",".join(f"g{rng.randrange(groups)}" for _ in range(rng.randrange(4)))
        submit = rng.choice([f"{listed} {groups_listed}", "*" if number % 20 == 7 else ""])
        admin = rng.choice(["", f" g{rng.randrange(groups)}"])
        lines.append(f'          - {{name: q{number}, submitacl: "{submit}", adminacl: "{admin}"}}')
        paths.append(f"root.q{number}")
    return "\n".join(lines), paths


@contextmanager
def served(folder: Path, ldif: str, policy: str) -> Iterator[Client]:
    """Run the directory and a server that asks it."""
    folder.mkdir(exist_ok=True)
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    (folder / "password").write_text(PASSWORD)
    (folder / "queues.yaml").write_text(policy)
    with running_slapd(folder / "slapd", ca, "", load=ldif, more_globals=_LIMITS) as slapd:
        config = folder / "queuegate.yaml"
        config.write_text(
            f"""\
policy: {{path: {folder / "queues.yaml"}}}
resolvers:
  corp:
    type: ldap
    urls: ["{slapd.tls_url}"]
    ca_file: {folder / "ca.pem"}
    bind_dn: {SERVICE}
    bind_password_file: {folder / "password"}
    user_base: {PEOPLE}
    group_base: {GROUPS}
    nested: walk
    lookup_timeout: 60s
    operation_timeout: 30s
    connect_timeout: 30s
partitions:
  default: {{resolver: corp, cache: {{positive_ttl: 1h}}}}
callers:
  loopback: {{roles: [check, read]}}
"""
        )
        with (
            running_server("--config", str(config)) as server,
            Client(server.address, timeout=600) as client,
        ):
            yield client


def compare(
    client: Client, users: int, paths: list[str], *, report: bool = False
) -> tuple[int, float]:
    """Compare the lists with checks of every user; return the users listed, and the seconds that
    the lists took.
    """
    everyone = [f"u{number}" for number in range(users)]
    found = 0
    seconds = 0.0
    for path in paths:
        for access in Access:
            results = client.check_many(Check(user, path, access=access) for user in everyone)
            decided = zip(everyone, results, strict=True)
            expected: dict[str, Decision] = {}
            for user, result in decided:
                assert isinstance(result, Decision), result
                if result:
                    expected[user] = result
            start = time.monotonic()
            pages = list(client.list_users(path, access=access, page_size=1000))
            seconds += time.monotonic() - start
            assert all(page.complete for page in pages), pages[0].incomplete
            if report:
                print(f"{path} {access}: {len(expected)} users", flush=True)
            if pages[0].everyone:
                assert len(expected) == users
                continue
            listed = {each.user: each for page in pages for each in page.users}
            assert listed.keys() == expected.keys(), (path, access)
            for user, decision in expected.items():
                first = listed[user].via[0]
                assert listed[user].confirmed
                assert (first.queue, first.name) == (
                    decision.matched_queue,
                    decision.matched_subject,
                )
            found += len(listed)
    return found, seconds


def main(users: int = 20_000, queues: int = 200) -> None:
    rng = random.Random(SEED)
    groups = max(4, users // 100)
    ldif = directory_of(users, groups, rng)
    policy, paths = policy_of(users, groups, queues, rng)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "run", ldif, policy) as client,
    ):
        found, seconds = compare(client, users, paths, report=True)
    print(f"{users} users, {groups} groups, {queues} queues: {found} users listed as checked")
    print(f"the lists took {seconds:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
