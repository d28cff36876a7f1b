"""/metrics after known traffic, and its documentation."""

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
import trustme
from google.rpc import error_details_pb2
from prometheus_client.parser import text_string_to_metric_families

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc, errors_pb2
from queuegate_server.decisions.log import AuditUnavailable
from queuegate_server.engine import GroupsUnavailable, NotReady, UnknownPartition
from queuegate_server.observe.metric_families import SERVER
from queuegate_server.rpc import errors
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import HANGS, ScriptedDirectory, settings_file
from tests.support.servers.admin_port import LISTEN, get, ops_address, value
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.sync_stream import sync_streams

POLICY = """\
partitions:
  - name: default
    queues:
      - {name: root, submitacl: "secret-user secret-group"}
  - name: other
    queues:
      - {name: root, submitacl: " secret-group"}
"""
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
CALL = ("unary", "queuegate.v1.AccessService", "CheckQueueAccess")


class Setup(NamedTuple):
    server: RunningServer
    ops: str
    client: queuegate.Client
    directory: ScriptedDirectory
    policy: Path


@contextmanager
def running(tmp_path: Path, *listeners: object) -> Iterator[Setup]:
    """Run a server on a port, and on more listeners if some are given."""
    policy = tmp_path / "queues.yaml"
    policy.write_text(POLICY)
    directory = ScriptedDirectory(tmp_path)
    guard = "identity.guarded_resolver"
    directory.constants |= {f"{guard}.BREAKER_FAILURES": 2, f"{guard}.BREAKER_PAUSE_SECONDS": 60}
    settings = {
        "policy": {"path": str(policy)},
        "resolvers": {
            "corp": directory.resolver(),
            "down": {
                "type": "ldap",
                "urls": ["ldap://127.0.0.1:1"],
                "bind": "anonymous",
                "start_tls": False,
                "user_base": "dc=x",
                "group_base": "dc=x",
            },
        },
        "partitions": {"default": {"resolver": "corp"}, "other": {"resolver": "down"}},
        "audit": {"path": str(tmp_path / "audit.log")},
        "listen": ["127.0.0.1:0", *listeners],
        "console": {"enabled": True},
    }
    no_retry = queuegate.Retry(attempts=1)
    with (
        running_server(
            "--config", settings_file(tmp_path, settings), *LISTEN, listen=(),
            environment=directory.environment,
        ) as server,
        queuegate.Client(server.address.split(", ")[0], timeout=60, retry=no_retry) as client,
    ):  # fmt: skip
        yield Setup(server, ops_address(server), client, directory, policy)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with running(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("shared")
    with running(folder, {"address": "localhost:0", "tls": certificate(folder)}) as started:
        yield started


def certificate(folder: Path, *, days: int = 1) -> dict[str, str]:
    """Write a new certificate; return its settings."""
    issued = trustme.CA().issue_cert("localhost", not_after=NOW + dt.timedelta(days))
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "new.pem")
    pem = str((folder / "new.pem").replace(folder / "server.pem"))
    return {"certificate_file": pem, "key_file": pem}


def send_known_traffic(setup: Setup) -> None:
    client = setup.client
    setup.directory.answer(
        {
            "mary": {"groups": ["secret-group"]},
            "broken": {"failed": "down"},
            "slow": {"groups": ["secret-group"], "seconds": HANGS},
        }
    )
    for _ in range(3):
        client.check("secret-user", "root")
    client.check_many([queuegate.Check("mary", "root")] * 10)
    client.check_many([queuegate.Check("mary", "root")] * 10)
    client.check("stranger", "root")
    for _ in range(2):
        with pytest.raises(queuegate.GroupsUnavailable):
            client.check("broken", "root")
    with pytest.raises(queuegate.InvalidArgument):
        client.check("secret-user", "none")
    client.check_many([queuegate.Check("secret-user", "root", partition="none")])
    with pytest.raises(queuegate.DeadlineExceeded):
        client.check("slow", "root", timeout=1)
    for user in ("mary", "martin"):
        with pytest.raises(queuegate.GroupsUnavailable):
            client.check(user, "root", partition="other")


@pytest.mark.usefixtures("transport")
def test_known_traffic(setup: Setup) -> None:
    send_known_traffic(setup)

    def of(name: str, *labels: str) -> float:
        return value(setup.ops, name, *labels)

    eventually(lambda: of("grpc_server_handled_total", *CALL), 10.0)
    assert of("queuegate_decisions_total", "allowed", "user") == 3
    assert of("queuegate_decisions_total", "allowed", "group") == 20
    assert of("queuegate_decisions_total", "denied", "unknown_user") == 1
    assert of("queuegate_decisions_total", "error", "resolver_unavailable") == 4
    assert of("queuegate_decisions_total", "error", "invalid_field") == 1
    assert of("queuegate_decisions_total", "error", "unknown_partition") == 1
    assert of("grpc_server_started_total", *CALL) == 10
    assert of("grpc_server_handled_total", *CALL, "OK") == 4
    assert of("grpc_server_handled_total", *CALL, "UNAVAILABLE") == 4
    assert of("grpc_server_handled_total", *CALL, "INVALID_ARGUMENT") == 1
    gone = ("DEADLINE_EXCEEDED", "CANCELLED")
    assert sum(of("grpc_server_handled_total", *CALL, code) for code in gone) == 1
    assert of("grpc_server_handling_seconds_count", *CALL) == 10
    assert of("grpc_server_handling_seconds_bucket", *CALL, "+Inf") == 10
    assert 0.2 <= of("grpc_server_handling_seconds_sum", *CALL) < 60

    cache = "queuegate_cache_requests_total"
    assert of(cache, "default", "miss") == 13  # ten of them in one batch, for one lookup
    assert of(cache, "default", "failure_hit") == 1
    assert of("queuegate_cache_entries", "default", "groups") == 1
    assert of("queuegate_cache_entries", "default", "negative") >= 2
    assert of("queuegate_resolver_lookups_total", "corp", "settings", "found") == 1
    assert of("queuegate_resolver_lookups_total", "corp", "no_such_user") == 1
    assert of("queuegate_resolver_lookups_total", "down", "could_not_ask") == 2
    assert of("queuegate_resolver_lookup_seconds_count", "down") == 2
    assert of("queuegate_resolver_breaker_state", "down", "open") == 1
    assert of("queuegate_resolver_breaker_state", "corp", "closed") == 1
    steps = ("down", "ldap://127.0.0.1:1", "connect")
    assert of("queuegate_ldap_steps_total", *steps, "failure") >= 1
    assert of("queuegate_ldap_steps_total", *steps, "success") == 0

    eventually(lambda: of("queuegate_calls_in_progress"), 0.0)
    assert of("queuegate_calls_limit") == 1000
    assert of("queuegate_policy_queues", "default") == 1
    assert of("queuegate_ready") == of("queuegate_build_info") == 1
    lines = get(setup.ops, "/metrics")[1].splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    for name in ("secret", "mary", "stranger", "broken", "slow", "root"):
        assert name not in text


def test_columns_count_each_question(shared: Setup) -> None:
    denied = ("queuegate_decisions_total", "denied", "unknown_user")
    allowed = ("queuegate_decisions_total", "allowed", "user")
    failed = ("queuegate_decisions_total", "error", "resolver_unavailable")
    invalid = ("queuegate_decisions_total", "error", "invalid_field")
    shared.directory.answer({"broken": {"failed": "down"}})
    kinds = (allowed, denied, failed, invalid)
    for _ in range(2):  # the second time from the response cache
        before = [value(shared.ops, *kind) for kind in kinds]
        known = [queuegate.Check(user, "root") for user in ("secret-user", "stranger")] * 40
        other = [queuegate.Check("broken", "root"), queuegate.Check("secret-user", "root..x")]
        assert shared.client.check_many([*known, *other])[0]
        added = [value(shared.ops, *kind) - past for kind, past in zip(kinds, before, strict=True)]
        assert added == [40, 40, 1, 1]
    labels = ("unary", "CheckQueueAccessColumns", "OK")
    eventually(lambda: value(shared.ops, "grpc_server_handled_total", *labels), 2.0)


def test_batches_count_each_question(shared: Setup) -> None:
    item = access_pb2.CheckQueueAccessRequest(queue="root")
    item.user.user = "secret-user"
    item.access = access_pb2.ACCESS_TYPE_SUBMIT
    before = value(shared.ops, "queuegate_decisions_total")
    request = access_pb2.BatchCheckQueueAccessRequest(checks=[item] * 5)
    with grpc.insecure_channel(shared.server.address.split(", ")[0]) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        for _ in range(3):
            assert len(stub.BatchCheckQueueAccess(request, timeout=60).results) == 5
    assert value(shared.ops, "queuegate_decisions_total") - before == 15


def test_streams_are_calls_too(shared: Setup) -> None:
    with sync_streams(shared.server.address.split(", ")[0]) as opening:
        stream = opening()
        stream.open()
        stream.send("release")
        assert stream.status() == ("OK", "")
    labels = ("bidi_stream", "Sync", "OK")
    eventually(lambda: value(shared.ops, "grpc_server_handled_total", *labels), 1.0)


def test_reloads(shared: Setup) -> None:
    def reloads(result: str) -> float:
        return value(shared.ops, "queuegate_policy_reloads_total", result)

    last = "queuegate_policy_last_reload_successful"
    assert (reloads("success"), reloads("failure"), value(shared.ops, last)) == (1, 0, 1)
    revision = value(shared.ops, "queuegate_policy_revision")
    loaded = value(shared.ops, "queuegate_policy_loaded_timestamp_seconds")
    replace(shared.policy, "nonsense")
    eventually(lambda: value(shared.ops, last), 0.0)
    assert reloads("failure") >= 1
    assert value(shared.ops, "queuegate_policy_revision") == revision
    replace(shared.policy, POLICY.replace("secret-group", "secret-people"))
    eventually(lambda: value(shared.ops, last), 1.0)
    assert value(shared.ops, "queuegate_policy_revision") == revision + 1
    assert value(shared.ops, "queuegate_policy_loaded_timestamp_seconds") > loaded


def test_certificates(shared: Setup) -> None:
    def reloads(result: str) -> float:
        return value(shared.ops, "queuegate_certificate_reloads_total", "localhost:0", result)

    def days() -> float:
        """Return for how many days more the certificate is good."""
        expiry = value(shared.ops, "queuegate_certificate_expiry_timestamp_seconds", "localhost:0")
        return (expiry - NOW.timestamp()) / 86_400

    folder = shared.policy.parent
    assert (days(), reloads("success"), reloads("failure")) == (1, 1, 0)
    certificate(folder, days=90)
    eventually(days, 90.0)
    eventually(lambda: reloads("success"), 2.0)
    replace(folder / "server.pem", "nonsense")
    eventually(lambda: reloads("failure"), 1.0)
    assert (days(), reloads("success")) == (90, 2)


def documented(heading: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return type and labels of the metrics in the table below a heading, by name."""
    text = Path("docs/reference/metrics.md").read_text(encoding="utf-8")
    section = re.split(rf"^#+ {heading}$", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\| [^|]+ \|$", section, re.MULTILINE)
    assert len(rows) == len({name for name, _, _ in rows})
    return {
        name: (kind, tuple(sorted(re.findall(r"`(\w+)`", labels)))) for name, kind, labels in rows
    }


def test_documented_metrics(shared: Setup) -> None:
    """The table lists exactly the exported metrics, with their types and labels."""
    with pytest.raises(queuegate.GroupsUnavailable):
        shared.client.check("mary", "root", partition="other")
    served = {}
    for family in text_string_to_metric_families(get(shared.ops, "/metrics")[1]):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        if not family.samples and family.name in SERVER:
            labels = {*SERVER[family.name].labels}  # those of a fleet
        served[name] = (family.type, tuple(sorted(labels)))
    assert documented("Metrics of the server") == served


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest([("user", "is required")]),
        UnknownPartition("x", ["y"]),
        GroupsUnavailable("corp", 1.0),
        NotReady(),
        errors.Overloaded("much"),
        errors.Draining("ends"),
        AuditUnavailable(),
        RuntimeError("ours"),
    ],
)
def test_reasons_are_those_of_the_status(error: Exception) -> None:
    status = errors.to_status(error)
    info = error_details_pb2.ErrorInfo()
    assert status.proto.details[0].Unpack(info)
    assert errors.reason_name(error) == info.reason.lower()
    assert errors_pb2.ErrorReason.Value(f"ERROR_REASON_{info.reason}")
