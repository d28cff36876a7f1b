"""Requests of at most 4 MiB that are designed to be as expensive as possible for a server.

Each consists of the bytes of a message and the expected status code. The requests in `LEGAL` are
the most expensive ones that each method answers. The others are rejected. Compressed with gzip,
most of them take a few kilobytes on the wire.
"""

from typing import Final, NamedTuple

from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc.wire import embed as field

MOST: Final = 4_000_000
"""The size of a message, a little less than the default of `limits.max_message`."""
OK, INVALID = "OK", "INVALID_ARGUMENT"
SUBMIT: Final = access_pb2.ACCESS_TYPE_SUBMIT
SPLIT: Final = 1 << 20
"""The size of the largest batch whose items protobuf counts: 1 MiB."""
ACCESS, POLICY, USER_GROUPS = (
    f"/queuegate.v1.{name}Service/" for name in ("Access", "Policy", "UserGroup")
)


class Costly(NamedTuple):
    """A request, and the expected end of its call."""

    method: str
    """The full name of the method on the wire."""
    message: bytes
    code: str


def question(**user: object) -> bytes:
    """Return a CheckQueueAccessRequest, given the fields of its user."""
    information = UserGroupInformation(**user)  # type: ignore[arg-type]
    return access_pb2.CheckQueueAccessRequest(
        user=information, queue="root.sandbox", access=SUBMIT
    ).SerializeToString()


def named(number: int, size: int = 8) -> str:
    """Return a name for a number, `size` characters long."""
    return f"n{number:0{size - 1}}"


GROUPS: Final = [named(number) for number in range(10_000)]
WHO: Final = UserGroupInformation(user="a", groups=GROUPS)
MANY_GROUPS: Final = field(1, question(user="a", groups=["g"] * 10_000))
ALL_WRONG: Final = question(user="a", groups=[""] * 10_000)
NESTED: Final = field(1, b"\x12\x00" * 1_000) * (MOST // 2_005)
"""A user 2,000 times, with 1,000 groups each, which protobuf merges."""

CHECKS: Final = {
    "unknown fields": (b"\x28\x01" * (MOST // 2), INVALID),
    "empty groups": (field(1, b"\x12\x00" * (MOST // 2)), INVALID),
    "empty users": (b"\x0a\x00" * (MOST // 2), INVALID),
    "too many groups": (question(user="a", groups=["g"] * 1_000_000), INVALID),
    "10 000 faults": (ALL_WRONG, INVALID),
    "not UTF-8": (field(1, b"\x12\x01\xff" * 300_000), INVALID),
    "fields on two levels": (NESTED + b"\x0f", INVALID),
    "fields before one that is not UTF-8": (NESTED + b"\x12\x01\xff", INVALID),
    "long name": (question(user="é" * 1_000_000), INVALID),
}
BATCHES: Final = {
    "endless length": (b"\x0a" + b"\xff" * MOST, INVALID),
    "empty items": (b"\x0a\x00" * (MOST // 2), INVALID),
    "empty items, 1 MiB": (b"\x0a\x00" * (SPLIT // 2), INVALID),
    "empty unknown groups, 1 MiB": (b"\x7b\x7c" * (SPLIT // 2), INVALID),
    "unknown fields": (b"\x10\x01" * (MOST // 2), INVALID),
    "deep groups": (b"\x7b" * MOST, INVALID),
    "long item": (field(1, b"\xff" * MOST), OK),
    "items with many groups": (MANY_GROUPS * 130, OK),
    "wrong items": (field(1, b"\xff") * 10_000, OK),
    "wrong items of many fields": (field(1, b"\x0a\x00" * 198 + b"\x0f") * 10_000, OK),
    "items of one fault": (field(1, question(user="", groups=["", "\x01"])) * 10_000, OK),
}
STREAMS: Final = {
    "merged messages": b"\x0a\x01\x00" * (MOST // 3),
    "unknown fields": b"\x78\x01" * (MOST // 2),
    "endless length": b"\x0a" + b"\xff" * MOST,
}
"""First messages of a gate's stream, each of which is rejected."""


def spark(**properties: str) -> access_pb2.CheckApplicationAccessRequest:
    """Return a check of a Spark application with these properties, named without `spark.`."""
    application = access_pb2.SparkApplication(spark_user="owner")
    application.properties["spark.acls.enable"] = "true"
    for name, value in properties.items():
        application.properties[f"spark.{name.replace('_', '.')}"] = value
    return access_pb2.CheckApplicationAccessRequest(
        user=UserGroupInformation(user="a", groups=["g"]),
        action=access_pb2.APPLICATION_ACTION_VIEW,
        spark=application,
    )


NAMES: Final = ",".join(named(number, 6) for number in range(90_000))
SPARK: Final = spark(
    ui_view_acls=NAMES, ui_view_acls_groups=NAMES, modify_acls=NAMES, admin_acls_groups=NAMES
)
COLUMNS: Final = access_pb2.CheckQueueAccessColumnsRequest(
    access=SUBMIT,
    users=[WHO, *[UserGroupInformation(user=f"u{number}") for number in range(9_999)]],
    queues=[f"root.sandbox.q{number}" for number in range(10_000)],
    user_indexes=[number % 10_000 for number in range(100_000)],
    queue_indexes=[number * 7 % 10_000 for number in range(100_000)],
    with_decisions=True,
)
GROUPS_IN_COLUMNS: Final = access_pb2.CheckQueueAccessColumnsRequest(
    access=SUBMIT,
    users=[UserGroupInformation(user=f"u{number}", groups=GROUPS) for number in range(10)],
    queues=COLUMNS.queues,
    user_indexes=[number % 10 for number in range(100_000)],
    queue_indexes=[number // 10 for number in range(100_000)],
)
"""Each pair has a different queue and 10,000 groups."""

LEGAL: Final = {
    "CheckQueueAccess": Costly(f"{ACCESS}CheckQueueAccess", question(user="a", groups=GROUPS), OK),
    "ExplainQueueAccess": Costly(
        f"{ACCESS}ExplainQueueAccess", question(user="a", groups=GROUPS), OK
    ),
    "BatchCheckQueueAccess": Costly(
        f"{ACCESS}BatchCheckQueueAccess",
        field(1, question(user="a", groups=GROUPS)) * (MOST // 100_040),
        OK,
    ),
    "CheckQueueAccessColumns": Costly(
        f"{ACCESS}CheckQueueAccessColumns", COLUMNS.SerializeToString(), OK
    ),
    "CheckQueueAccessColumns with groups": Costly(
        f"{ACCESS}CheckQueueAccessColumns", GROUPS_IN_COLUMNS.SerializeToString(), OK
    ),
    "ListQueues": Costly(
        f"{ACCESS}ListQueues",
        access_pb2.ListQueuesRequest(
            user=WHO, access=SUBMIT, page_size=10_000, with_via=True
        ).SerializeToString(),
        OK,
    ),
    "ListUsers": Costly(
        f"{ACCESS}ListUsers",
        access_pb2.ListUsersRequest(
            queue="root", access=SUBMIT, page_size=1_000
        ).SerializeToString(),
        OK,
    ),
    "CheckApplicationAccess": Costly(
        f"{ACCESS}CheckApplicationAccess", SPARK.SerializeToString(), OK
    ),
    "ExplainApplicationAccess": Costly(
        f"{ACCESS}ExplainApplicationAccess", field(1, SPARK.SerializeToString()), OK
    ),
    "BatchCheckApplicationAccess": Costly(
        f"{ACCESS}BatchCheckApplicationAccess",
        field(1, spark(ui_view_acls=NAMES[:300]).SerializeToString()) * 9_000,
        OK,
    ),
    "BatchCheckApplicationAccess of one": Costly(
        f"{ACCESS}BatchCheckApplicationAccess", field(1, SPARK.SerializeToString()), OK
    ),
    "GetPolicy": Costly(
        f"{POLICY}GetPolicy", policy_pb2.GetPolicyRequest().SerializeToString(), OK
    ),
    "ValidatePolicy": Costly(
        f"{POLICY}ValidatePolicy",
        policy_pb2.ValidatePolicyRequest(
            format="yunikorn", content="# " + "x" * 2_000_000
        ).SerializeToString(),
        OK,
    ),
    "ResolveUserGroups": Costly(
        f"{USER_GROUPS}ResolveUserGroups",
        user_groups_pb2.ResolveUserGroupsRequest(user="a" * 1_024).SerializeToString(),
        OK,
    ),
}
"""By method and special property."""
REFUSED: Final = {
    **{
        f"check: {name}": Costly(f"{ACCESS}CheckQueueAccess", *each)
        for name, each in CHECKS.items()
    },
    **{
        f"batch: {name}": Costly(f"{ACCESS}BatchCheckQueueAccess", *each)
        for name, each in BATCHES.items()
    },
    "health of empty fields": Costly(
        "/grpc.health.v1.Health/Check", b"\x7a\x00" * (MOST // 2), INVALID
    ),
    "explain": Costly(f"{ACCESS}ExplainQueueAccess", NESTED + b"\x0f", INVALID),
    "columns of empty users": Costly(
        f"{ACCESS}CheckQueueAccessColumns", b"\x1a\x00" * (MOST // 2), INVALID
    ),
    "columns of small indexes": Costly(
        f"{ACCESS}CheckQueueAccessColumns", field(5, bytes(MOST)), INVALID
    ),
    "invalidation of empty users": Costly(
        f"{USER_GROUPS}InvalidateUserGroups", b"\x12\x00" * (MOST // 2), INVALID
    ),
    "application of empty properties": Costly(
        f"{ACCESS}CheckApplicationAccess", field(5, b"\x0a\x00" * (MOST // 2)), INVALID
    ),
    "columns": Costly(f"{ACCESS}CheckQueueAccessColumns", field(3, NESTED) + b"\x0f", INVALID),
    "list": Costly(f"{ACCESS}ListQueues", NESTED + b"\x0f", INVALID),
    "users": Costly(f"{ACCESS}ListUsers", NESTED + b"\x0f", INVALID),
    "users: a long token": Costly(
        f"{ACCESS}ListUsers",
        access_pb2.ListUsersRequest(
            queue="root", access=SUBMIT, page_token="A" * (MOST // 2)
        ).SerializeToString(),
        INVALID,
    ),
    "application": Costly(f"{ACCESS}CheckApplicationAccess", NESTED + b"\x0f", INVALID),
    "applications: empty items": Costly(
        f"{ACCESS}BatchCheckApplicationAccess", b"\x0a\x00" * (MOST // 2), INVALID
    ),
    "applications: many fields": Costly(
        f"{ACCESS}BatchCheckApplicationAccess",
        field(1, b"\x0a\x00" * 198 + b"\x0f") * 10_000,
        OK,
    ),
    "policy": Costly(f"{POLICY}GetPolicy", b"\x18\x01" * (MOST // 2) + b"\x0f", INVALID),
    "validate": Costly(f"{POLICY}ValidatePolicy", b"\x18\x01" * (MOST // 2) + b"\x0f", INVALID),
    "resolve": Costly(
        f"{USER_GROUPS}ResolveUserGroups", b"\x20\x01" * (MOST // 2) + b"\x0f", INVALID
    ),
}
"""Requests that are rejected, or contain rejected items."""
