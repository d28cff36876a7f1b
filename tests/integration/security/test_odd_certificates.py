r"""Odd certificates over real connections: a name such as `operator\0.example.com` is nobody's."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.files.peer_certificate import peer_certificate
from tests.integration.security.authorities import (
    Authority,
    channel,
    configured,
    with_tls,
)
from tests.support.odd_certificates import ODD, ORDINARY, RIGHTS, Odd
from tests.support.servers.queuegate_server import RunningServer

CORPUS = {**ORDINARY, **ODD}
REFUSED_BY_TLS = {
    "address of five bytes",
    "broken extension",
    "common name of half a character",
    "common name that is not UTF-8",
    "two extensions with names",
}
"""Certificates that BoringSSL refuses, so that there is no call."""


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningServer]:
    callers = {"certificates": {name: {"roles": ["check"]} for name in RIGHTS}}
    folder = tmp_path_factory.mktemp("odd")
    with configured(folder, [with_tls(authority)], callers=callers) as started:
        yield started


@pytest.fixture(scope="module")
def reading(authority: Authority) -> Iterator[str]:
    """Return the address of a server that answers with what gRPC has read in the certificate."""

    def read(_data: bytes, context: grpc.ServicerContext) -> bytes:
        shown: Any = context.auth_context()
        return json.dumps(
            {key: [value.decode("latin-1") for value in values] for key, values in shown.items()}
        ).encode()

    certificate, key = authority.server()
    credentials = grpc.ssl_server_credentials(
        [(key.read_bytes(), certificate.read_bytes())],
        authority.file.read_bytes(),
        require_client_auth=True,
    )
    with ThreadPoolExecutor(1) as threads:
        made = grpc.server(threads)
        made.add_registered_method_handlers(
            "test", {"read": grpc.unary_unary_rpc_method_handler(read)}
        )
        port = made.add_secure_port("127.0.0.1:0", credentials)
        made.start()
        yield f"127.0.0.1:{port}"
        made.stop(None).wait()


def shown(folder: Path, authority: Authority, odd: Odd) -> queuegate.Tls:
    certificate, key = folder / "client.pem", folder / "client.key"
    for path, content in zip(
        (certificate, key), odd.certificate.issue(authority.made), strict=True
    ):
        path.write_bytes(content)
    return authority.tls(certificate, key)


@pytest.mark.parametrize("name", CORPUS)
def test_only_the_names_that_count_have_rights(
    server: RunningServer, authority: Authority, tmp_path: Path, name: str
) -> None:
    odd = CORPUS[name]
    with channel(server.address, shown(tmp_path, authority, odd)) as opened:
        outcome, details = check(opened)
    if name in REFUSED_BY_TLS:
        assert outcome is grpc.StatusCode.UNAVAILABLE
    elif odd.fault:
        assert outcome is grpc.StatusCode.UNAUTHENTICATED
        assert details == f"the client certificate cannot be used: {odd.fault}"
    elif odd.subject or not set(odd.names).isdisjoint(RIGHTS):
        assert outcome is grpc.StatusCode.OK
    else:
        assert outcome is grpc.StatusCode.PERMISSION_DENIED


def check(opened: grpc.Channel) -> tuple[grpc.StatusCode, str]:
    """Return how a check ends, and what the server says."""
    question = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="alice"),
        queue="root.open",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    try:
        access_pb2_grpc.AccessServiceStub(opened).CheckQueueAccess(question, timeout=60)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_certificates_are_read_as_grpc_reads_them(
    reading: str, authority: Authority, tmp_path: Path, name: str
) -> None:
    with channel(reading, shown(tmp_path, authority, ORDINARY[name])) as opened:
        read: Any = opened.unary_unary("/test/read")
        answer = json.loads(read(b"", timeout=60))
    values = {
        key: [text.encode("latin-1").decode() for text in texts] for key, texts in answer.items()
    }
    names = (
        *values.get("peer_spiffe_id", ()),
        *(f"uri:{uri}" for uri in values.get("peer_uri", ())),
        *(f"dns:{dns.lower()}" for dns in values.get("peer_dns", ())),
        *(f"cn:{common}" for common in values.get("x509_common_name", ()) if common),
    )
    assert peer_certificate(values["x509_pem_cert"][0].encode()).names == names
    if ORDINARY[name].subject:
        assert values["x509_subject"] == [ORDINARY[name].subject.removeprefix("subject:")]
