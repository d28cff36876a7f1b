"""The webhook's certificate, read again when it is renewed."""

import os
from pathlib import Path

import pytest
import trustme

from queuegate_server.admission.certificate import BadCertificate, Certificate


def mount(folder: Path, authority: trustme.CA) -> tuple[Path, Path]:
    issued = authority.issue_cert("webhook.example.org")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    return certificate, key


async def test_a_renewed_certificate_is_served_and_a_bad_one_is_not(tmp_path: Path) -> None:
    authority = trustme.CA()
    reloads: list[bool] = []
    files = mount(tmp_path, authority)
    certificate = Certificate(*files, reloads.append)
    await certificate.reload()
    assert reloads == []
    mount(tmp_path, authority)
    await certificate.reload()
    files[1].write_text("no key")
    await certificate.reload()
    assert reloads == [True, False]


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
async def test_a_pipe_is_refused_at_once(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    reloads: list[bool] = []
    files = mount(tmp_path, trustme.CA())
    certificate = Certificate(*files, reloads.append)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    await certificate.reload()
    assert reloads == [False]
    assert caplog.records[-1].__dict__["error"] == f"{tmp_path / name}: not a regular file"
    with pytest.raises(BadCertificate, match="not a regular file"):
        Certificate(*files, reloads.append)
