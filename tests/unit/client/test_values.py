"""The values that callers make and get: checked, immutable, true only where they should be."""

import dataclasses
import pickle
from typing import Any

import pytest

import queuegate
from queuegate import Access, Check, CheckFailure, Decision, Reason, Retry, Tls
from queuegate._calls import Deadline

REASON = Reason.WILDCARD


def test_a_check_keeps_groups_as_a_tuple_and_access_as_a_member() -> None:
    check = Check("alice", "root", access="admin", groups=(group for group in ["g1", "g2"]))
    assert check.groups == ("g1", "g2")
    assert check.access is Access.ADMIN
    assert check == Check("alice", "root", "default", Access.ADMIN, ["g1", "g2"])
    assert len({check, Check("alice", "root", "default", "admin", ("g1", "g2"))}) == 1


def test_an_empty_partition_is_the_default_one_of_the_contract() -> None:
    assert Check("alice", "root", partition="").partition == ""


def explained(*, allowed: bool) -> queuegate.ApplicationExplanation:
    groups = queuegate.ExplainedGroups(queuegate.GroupsOrigin.NOT_NEEDED, (), "none", "")
    return queuegate.ApplicationExplanation(Decision(allowed, REASON, "", "*", 1), (), groups)


TRUTH: list[tuple[Any, bool]] = [
    (Decision(True, REASON, "root", "*", 1), True),
    (Decision(False, REASON, "root", "*", 1), False),
    (explained(allowed=True), True),
    (explained(allowed=False), False),
    (CheckFailure(queuegate.ServerError("x")), False),
    (queuegate.HealthStatus.SERVING, True),
    (queuegate.HealthStatus.NOT_SERVING, False),
    (queuegate.HealthStatus.UNKNOWN, False),
    (queuegate.HealthStatus.SERVICE_UNKNOWN, False),
    (queuegate.ReloadResult(False, 1, ()), False),
    (queuegate.ReloadResult(True, 1, ()), True),
    (queuegate.ValidationResult(False, ()), False),
    (queuegate.ValidationResult(True, ()), True),
]


@pytest.mark.parametrize(("value", "truth"), TRUTH)
def test_truth(value: Any, truth: bool) -> None:
    assert bool(value) is truth


@pytest.mark.parametrize("outcome", queuegate.ResolveOutcome)
def test_a_resolution_is_true_only_if_resolved(outcome: queuegate.ResolveOutcome) -> None:
    resolution = queuegate.Resolution("a", (), outcome, "none", False, False, None, None, "")
    assert bool(resolution) is (outcome == "resolved")


def test_every_result_says_whether_access_is_allowed() -> None:
    failure = CheckFailure(queuegate.ServerError("x"))
    assert failure.allowed is False
    assert failure == CheckFailure(failure.error)
    assert repr(failure) == "CheckFailure(error=ServerError('x'))"


def test_properties_of_spark_are_a_mapping() -> None:
    pairs: Any = [("spark.acls.enable", "true")]
    with pytest.raises(TypeError, match="properties must be a mapping of str to str, not list"):
        queuegate.SparkApplication(pairs)


def test_values_are_immutable() -> None:
    values: list[Any] = [
        Check("a", "root"),
        Decision(True, REASON, "", "", 1),
        Retry(),
        Tls(),
    ]
    for value in values:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, "other")


def test_values_can_be_pickled() -> None:
    values: list[Any] = [
        Check("a", "root", groups=["g"]),
        Decision(True, REASON, "", "", 1),
        queuegate.HealthStatus.SERVING,
    ]
    for value in values:
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


def test_tls_shows_no_secret() -> None:
    tls = Tls("ca.pem", "own.pem", "secret-place.key", "name")
    text = repr(tls)
    assert "own.pem" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    "fields",
    [{"certificate_file": "a"}, {"key_file": "a"}, {"server_name": ""}],
)
def test_tls_refuses(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"key|server_name"):
        Tls(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": 0},
        {"attempts": 6},
        {"initial_backoff": 0},
        {"initial_backoff": 0.001},  # gRPC would wait for ever
        {"initial_backoff": 1.0, "max_backoff": 0.5},
        {"max_backoff": 61},
        {"max_backoff": float("nan")},
    ],
)
def test_retry_refuses(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"attempts|backoff"):
        Retry(**fields)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"timeout": None}, TypeError, "timeout must be a number"),
        ({"timeout": 0}, ValueError, "timeout must be more than 0"),
        ({"timeout": float("inf")}, ValueError, "at most 86400"),
        ({"tls": True}, TypeError, r"tls must be a queuegate\.Tls, not True"),
        ({"retry": None}, TypeError, r"retry must be a queuegate\.Retry"),
        ({"retry": 3}, TypeError, r"retry must be a queuegate\.Retry, not 3"),
        ({"address": b"localhost:1"}, TypeError, "address must be a str"),
    ],
)
async def test_clients_refuse_settings(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    for kind in (queuegate.Client, queuegate.aio.Client):
        with pytest.raises(error, match=message):
            kind(**settings)


def test_clients_say_where_they_ask() -> None:
    with queuegate.Client("localhost:1") as client:
        assert repr(client) == "Client('localhost:1')"
        assert client.address == "localhost:1"


def test_a_deadline_counts_down_to_zero() -> None:
    now = 100.0
    deadline = Deadline(2.0, lambda: now)
    assert deadline.left() == 2.0
    now = 101.5
    assert deadline.left() == 0.5
    now = 200.0
    assert deadline.left() == 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((b"x", -3), ValueError, r"sequence must be from 0 to 2\*\*64 - 1, not -3"),
        ((b"x", 2**64), ValueError, "sequence must be from 0"),
        ((b"x", "3"), TypeError, "sequence must be an int, not str"),
        (("x", 3), TypeError, "epoch must be bytes, not str"),
    ],
)
def test_a_cursor_names_what_is_wrong(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        queuegate.Cursor(*arguments)
