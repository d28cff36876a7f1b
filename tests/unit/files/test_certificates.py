"""When certificates expire, and which of them can be served."""

import asyncio
import datetime as dt
import os
import subprocess
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from queuegate_server.files import certificates
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.watcher import BadFile

SOON = dt.datetime(2031, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
LATER = dt.datetime(2049, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
PAST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 2, 1, tzinfo=dt.UTC)
AS_GENERALIZED_TIME = dt.datetime(2050, 1, 1, tzinfo=dt.UTC)
AUTHORITY = trustme.CA()


def pem(expires: dt.datetime) -> bytes:
    return AUTHORITY.issue_cert("host", not_after=expires).cert_chain_pems[0].bytes()


def write(folder: Path, issued: trustme.LeafCert) -> tuple[Path, Path]:
    """Write certificate and key, and return their paths."""
    paths = folder / "tls.crt", folder / "tls.key"
    issued.private_key_pem.write_to_path(str(paths[1]))
    paths[0].write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    return paths


def test_from_the_last_begin_to_the_first_end(tmp_path: Path) -> None:
    begins = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (2020, 2022, 2021)]
    issued = [
        AUTHORITY.issue_cert("host", not_before=begin, not_after=end)
        for begin, end in zip(begins, (LATER, LATER, SOON), strict=True)
    ]
    files = write(tmp_path, issued[0])
    files[0].write_bytes(b"".join(each.cert_chain_pems[0].bytes() for each in issued))
    loaded = CertificateReloader(*files).value
    assert (loaded.not_before, loaded.not_after) == (begins[1].timestamp(), SOON.timestamp())


async def test_half_of_a_new_pair_is_not_used(tmp_path: Path) -> None:
    files = write(tmp_path, AUTHORITY.issue_cert("host", not_after=SOON))
    reloader = CertificateReloader(*files)
    old = reloader.value
    renewed = AUTHORITY.issue_cert("host", not_after=LATER)
    files[0].write_bytes(renewed.cert_chain_pems[0].bytes())
    await reloader.reload()
    assert reloader.value is old
    renewed.private_key_pem.write_to_path(str(files[1]))
    await reloader.reload()
    assert reloader.expires == LATER.timestamp()
    assert (reloader.reloads, reloader.failures) == (2, 1)


async def test_an_expired_certificate_does_not_replace_a_valid_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = write(tmp_path, AUTHORITY.issue_cert("host", not_after=SOON))
    reloader = CertificateReloader(*files)
    valid = reloader.value
    write(tmp_path, AUTHORITY.issue_cert("host", not_before=PAST[0], not_after=PAST[1]))
    await reloader.reload()
    assert reloader.value is valid
    assert (reloader.reloads, reloader.failures) == (1, 1)
    [error] = [record.__dict__["error"] for record in caplog.records if record.levelname == "ERROR"]
    assert error == (
        f"{files[0]}: the new certificate expired on 2020-02-01 00:00:00 UTC: the previous one,"
        " valid until 2031-02-03 04:05:06 UTC, stays in use (issue a new certificate)"
    )
    write(tmp_path, AUTHORITY.issue_cert("host", not_after=LATER))
    await reloader.reload()
    assert reloader.expires == LATER.timestamp()


async def test_a_certificate_replaces_a_valid_one_once_it_is_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    files = write(tmp_path, AUTHORITY.issue_cert("host", not_after=SOON))
    reloader = CertificateReloader(*files)
    valid = reloader.value
    write(tmp_path, AUTHORITY.issue_cert("host", not_before=begin, not_after=LATER))
    for _ in range(2):
        await reloader.reload()
        assert reloader.value is valid
    [error] = [record.__dict__["error"] for record in caplog.records if record.levelname == "ERROR"]
    assert error == (
        f"{files[0]}: the new certificate is not valid before 2030-01-01 00:00:00 UTC: the previous"
        " one, valid until 2031-02-03 04:05:06 UTC, stays in use (until 2030-01-01 00:00:00 UTC, if"
        " this machine's clock is right)"
    )
    monkeypatch.setattr("time.time", begin.timestamp)
    monkeypatch.setattr(certificates, "_RETRY_SECONDS", 0.01)
    watching = asyncio.create_task(reloader.watch())
    async with asyncio.timeout(60):
        while reloader.value is valid:  # noqa: ASYNC110 - the reloader sets no event
            await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert reloader.expires == LATER.timestamp()
    assert (reloader.reloads, reloader.failures) == (2, 1)


async def test_expired_from_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is served, with a warning, until there is another one, even if that has expired, too."""
    first, later = (PAST[0], PAST[1]), (PAST[0], PAST[1] + dt.timedelta(days=1))
    for begin, end in (first, later):
        issued = AUTHORITY.issue_cert("host", not_before=begin, not_after=end)
        files = write(tmp_path, issued)
        if end == PAST[1]:
            reloader = CertificateReloader(*files)
        await reloader.reload()
        assert reloader.expires == end.timestamp()
    warnings = [record.__dict__["until"] for record in caplog.records if record.levelno == 30]
    assert warnings == ["2020-02-01 00:00:00 UTC", "2020-02-02 00:00:00 UTC"]


@pytest.mark.parametrize("index", range(3))
async def test_a_file_that_is_half_written(tmp_path: Path, index: int) -> None:
    files = [*write(tmp_path, AUTHORITY.issue_cert("host", not_after=SOON)), tmp_path / "ca.pem"]
    other = trustme.CA().cert_pem.bytes()
    files[2].write_bytes(AUTHORITY.cert_pem.bytes() + other)
    reloader = CertificateReloader(files[0], files[1], files[2])
    before, content = reloader.value, files[index].read_bytes()
    files[index].write_bytes(content[:-40])
    await reloader.reload()
    assert reloader.value is before
    files[index].write_bytes(content)
    await reloader.reload()
    assert reloader.failures == 1
    assert reloader.value.client_ca == before.client_ca


async def test_files_that_change_while_they_are_loaded(tmp_path: Path) -> None:
    files = write(tmp_path, AUTHORITY.issue_cert("host", not_after=SOON))
    loads = 0

    def change_once(_: object) -> None:
        nonlocal loads
        loads += 1
        if loads == 2:
            write(tmp_path, AUTHORITY.issue_cert("host", not_after=LATER))

    reloader = CertificateReloader(*files, check=change_once)
    files[0].write_bytes(files[0].read_bytes() + b"\n")
    await reloader.reload()
    assert (reloader.expires, reloader.failures) == (SOON.timestamp(), 1)
    await reloader.reload()
    assert (reloader.expires, reloader.failures) == (LATER.timestamp(), 1)


def test_files_of_other_programs_are_accepted(tmp_path: Path) -> None:
    """`openssl ecparam -genkey` puts the parameters of the curve before the key; some put both
    key and certificate into one file.
    """
    issued = AUTHORITY.issue_cert("host", not_after=SOON)
    files = write(tmp_path, issued)
    made = subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-outform", "PEM"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    files[1].write_bytes(made.stdout + issued.private_key_pem.bytes())
    assert CertificateReloader(*files).expires == SOON.timestamp()
    files[0].write_bytes(files[1].read_bytes() + files[0].read_bytes())
    assert CertificateReloader(files[0], files[0]).expires == SOON.timestamp()


def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    issued = AUTHORITY.issue_cert("host")
    files = write(tmp_path, issued)
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    for passphrase in (b"secret", b" "):
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(passphrase),
            )
        )
        with pytest.raises(BadFile, match="is not a PEM private key without a passphrase"):
            CertificateReloader(*files)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
async def test_a_pipe_is_refused_at_once(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = write(tmp_path, AUTHORITY.issue_cert("host"))
    reloader = CertificateReloader(*files)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    await reloader.reload()
    assert (reloader.reloads, reloader.failures) == (1, 1)
    assert caplog.records[-1].__dict__["error"] == f"{tmp_path / name}: not a regular file"
    with pytest.raises(BadFile, match="not a regular file"):
        CertificateReloader(*files)
