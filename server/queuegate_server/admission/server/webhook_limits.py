"""The webhook's fixed limits on a single review, a single client, and all clients together. Pure.

limits.md lists them for operators (`docs/generate/limits.py`).
"""

from typing import Final

MAX_CONNECTIONS: Final = 640
"""The maximum number of connections. Three API servers with default settings send up to 600
concurrent requests."""
MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The maximum body size. The API server rejects larger requests (`MaxRequestBodyBytes` in
apiserver's `pkg/server/config.go`), and etcd stores half as much (`--max-request-bytes`)."""
SMALL_BODY_BYTES: Final = 32 * 1024
"""The maximum size of a small body, which is answered at once."""
SMALL_BODY_ENTRIES: Final = 1_000
"""The maximum number of entries in the lists and maps of a small body. Decoding and searching one
takes up to 2 µs, so the time depends on the number of entries rather than on the number of bytes. A
pod has a few hundred."""
LARGE_BODIES: Final = 4
"""The maximum number of bodies that are not small, per endpoint. This limits their memory to 36
MiB."""
LARGE_BODY_WAIT_SECONDS: Final = 1.5
"""How long a body that is not small may wait for another to be handled."""
SMALL_BODY_SECONDS: Final = 5.0
LARGE_BODY_SECONDS: Final = 2.0
"""The time limits for receiving a small or large body."""
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
"""The API server's time limit for webhooks without `timeoutSeconds`."""
MAX_TIMEOUT_SECONDS: Final = 30.0
"""The maximum value of `timeoutSeconds` (ValidatingWebhook in admissionregistration.k8s.io/v1)."""
TIMEOUT_MARGIN_SECONDS: Final = 1.5
"""The time reserved for the network and for writing the response."""
BACKSTOP_SECONDS: Final = 0.5
"""How long after its deadline a handler is cancelled."""
GRACE_SECONDS: Final = 30.0
"""How long reviews in progress may continue at shutdown. Longer than `MAX_TIMEOUT_SECONDS`."""
MAX_MAP_ENTRIES: Final = 2_000
"""The maximum number of entries in a map of labels or annotations. Lists of groups may have twice
as many."""
MAX_REVISION_BYTES: Final = 256 * 1024
MAX_REVISION_ENTRIES: Final = 20_000
"""The maximum size of a ControllerRevision, in bytes and in entries as `count_entries` counts them.
Bounded because its data is decoded in full."""
MAX_REQUEST_GROUPS: Final = 10_000
"""The maximum number of the requester's groups."""
MAX_OBJECT_ENTRIES: Final = 100_000
"""The maximum number of entries in the maps and lists of an object, excluding its `managedFields`.
"""
MAX_QUESTION_BYTES: Final = 1024 * 1024
"""The maximum body size of a question to /authorize. Most of it is the user's groups."""
MAX_DEPTH: Final = 100
"""The maximum number of nested maps and lists."""
MAX_FOUND: Final = 1_000
"""The maximum number of names in an object, including repetitions."""
MAX_PROPERTY_TEXT: Final = 4 * 1024
"""The maximum length of a property's text that contains labels or annotations, in characters."""
MAX_PROPERTY_ENTRIES: Final = 100
"""The maximum number of entries in such a property. Each takes up to 20 µs."""
MAX_PROPERTY_TEXTS: Final = 8
"""The maximum number of such properties in an object. A FlinkDeployment has up to four."""
MAX_QUEUES: Final = 64
"""The maximum number of different queues in an object."""
MAX_NAME_BYTES: Final = 1_024
"""The maximum size of a user name or group name, as in gRPC requests."""
MAX_STRANGERS_RUNNING: Final = 4
"""The maximum number of concurrent lookups for callers without a certificate. A resolver's default
limit is 64."""
MAX_STRANGERS_WAITING: Final = 64
"""The maximum number of reviews that wait for such a lookup."""
MAX_MESSAGE: Final = 8 * 1024
MAX_WARNING: Final = 256
MAX_WARNINGS: Final = 5
"""The maximum length and number of warnings. One more warning says how many were omitted. kubectl
prints each. If the warnings of a request exceed 4096 characters, the API server truncates each to
256, and drops the rest once the truncated warnings reach 4096 (`recorder.AddWarning` in apiserver's
`pkg/endpoints/filters/warning.go`, the same in 0.35 to 0.37).
"""
