"""Certificates of the server: how they are renewed, and listeners of all kinds."""

import datetime as dt
import os
import ssl
import threading
from pathlib import Path

import queuegate
from tests.integration.security.authorities import (
    Authority,
    client,
    configured,
    dns,
    issued,
    listener,
    with_tls,
)
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import RunningServer


def mount(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into a folder as Kubernetes does: links to a link that is swapped."""
    number = len(list(folder.iterdir()))
    content = folder / f"..{number}"
    content.mkdir()
    for name, data in files.items():
        (content / name).write_bytes(data)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    new = folder / "..new"
    new.symlink_to(content.name)
    new.replace(folder / "..data")


def served(server: RunningServer) -> str:
    host, port = server.address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=60)


def leaf(files: dict[str, bytes]) -> str:
    end = b"-----END CERTIFICATE-----\n"
    return (files["tls.crt"].partition(end)[0] + end).decode()


CALLERS = {"certificates": {"dns:caller.example.org": {"roles": ["check"]}}}


def test_renewed_under_load_without_a_failed_call(tmp_path: Path, ours: Authority) -> None:
    """Old connections go on, new ones get the new certificate; no call fails."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount(mounted, issued(ours))
    shown = ours.client("caller", dns("caller.example.org"))
    answered, failed, ended = [0], list[Exception](), threading.Event()

    def ask(keep: bool) -> None:
        asking = client(address, shown)
        while not ended.is_set():
            try:
                answered[0] += bool(asking.check("alice", "root.open"))
                if not keep:
                    asking.close()
                    asking = client(address, shown)
            except Exception as error:
                failed.append(error)
        asking.close()

    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        address = server.address
        threads = [threading.Thread(target=ask, args=(keep,)) for keep in (True, True, False)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                renewed = issued(ours)
                mount(mounted, renewed)
                eventually(lambda: served(server), leaf(renewed))
        finally:
            ended.set()
            for thread in threads:
                thread.join(60)
    assert not failed
    assert answered[0] > 0


def test_another_authority_of_callers_is_taken_over(
    tmp_path: Path, ours: Authority, stranger: Authority
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    files = issued(ours)
    mount(mounted, files)
    old = ours.client("old", dns("caller.example.org"))
    new = stranger.client("new", dns("caller.example.org"))
    new = queuegate.Tls(ours.file, new.certificate_file, new.key_file)

    def accepted() -> list[bool]:
        found = []
        for shown in (old, new):
            with client(server.address, shown) as asking:
                try:
                    found.append(bool(asking.check("alice", "root.open")))
                except queuegate.ServerUnavailable:
                    found.append(False)
        return found

    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        assert accepted() == [True, False]
        mount(mounted, {**files, "ca.crt": stranger.file.read_bytes()})
        eventually(accepted, [False, True])


def test_unusable_files_keep_the_old_certificate(
    tmp_path: Path, ours: Authority, stranger: Authority
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    before = issued(ours)
    mount(mounted, before)
    other = issued(ours)
    shown = ours.client("caller", dns("caller.example.org"))
    expired, future = ours.renewed(-9, -1), ours.renewed(1, 9)
    past = [dt.datetime.now(dt.UTC) - dt.timedelta(days) for days in (9, 1)]
    over = ours.made.issue_cert("localhost", not_before=past[0], not_after=past[1])
    broken: list[tuple[dict[str, bytes], str]] = [
        ({**before, "tls.key": other["tls.key"]}, "does not belong to"),
        (
            {**before, "tls.crt": before["tls.crt"][:300]},
            "tls.crt: is incomplete: a PEM block in it",
        ),
        ({**before, "ca.crt": b"-"}, "ca.crt: contains no readable PEM certificate"),
        (
            {
                **before,
                "tls.crt": over.cert_chain_pems[0].bytes(),
                "tls.key": over.private_key_pem.bytes(),
            },
            "tls.crt: the new certificate expired on ",
        ),
        ({**before, "ca.crt": expired}, "ca.crt: the new authority expired on "),
        ({**before, "ca.crt": expired + future}, "ca.crt: the new authority is not valid before "),
    ]
    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        for count, (files, fault) in enumerate(broken, start=1):
            mount(mounted, files)
            entry = server.wait_for_log("cannot use the changed file", count=count)
            assert fault in entry["error"]
            assert served(server) == leaf(before)
            with client(server.address, shown) as asking:
                assert asking.check("alice", "root.open")
        # One authority that is valid is enough.
        mount(mounted, {**other, "ca.crt": stranger.renewed(-9, -1) + other["ca.crt"]})
        server.wait_for_log("reloaded a changed file")
        eventually(lambda: served(server), leaf(other))
        with client(server.address, shown) as asking:
            assert asking.check("alice", "root.open")


def test_a_file_that_hangs_holds_up_nothing(tmp_path: Path, ours: Authority) -> None:
    """A pipe in place of the key: it is not opened as a file would be."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    mount(mounted, issued(ours))
    shown = ours.client("caller", dns("caller.example.org"))
    with configured(tmp_path, [listener(mounted)], callers=CALLERS) as server:
        (mounted / "tls.key").unlink()
        os.mkfifo(mounted / "tls.key")
        entry = server.wait_for_log("cannot use the changed file")
        assert entry["error"] == f"{mounted}/tls.key: not a regular file"
        with client(server.address, shown) as asking:
            assert asking.check("alice", "root.open")


def test_one_server_has_listeners_of_all_kinds(tmp_path: Path, authority: Authority) -> None:
    listen = [
        "127.0.0.1:0",
        with_tls(authority, mutual=False),
        with_tls(authority),
        f"unix:{tmp_path}/q.sock",
    ]
    shown = authority.client("caller", dns("caller.example.org"))
    with configured(tmp_path, listen, callers=CALLERS) as server:
        plain, one_sided, mutual, unix = server.address.split(", ")
        for address, tls in (
            (plain, None),
            (one_sided, authority.tls()),
            (mutual, shown),
            (unix, None),
        ):
            with client(address, tls) as asking:
                assert asking.check("alice", "root.open")
