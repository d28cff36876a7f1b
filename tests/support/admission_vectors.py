"""The admission vectors as requests, with the few that are deliberately answered differently."""

import json
from pathlib import Path
from typing import Any

from queuegate_server.admission.annotations.yunikorn_settings import (
    YuniKornSettings,
    YuniKornSettingsError,
    read_settings,
)

_FILE: dict[str, Any] = json.loads(
    Path("tests/vectors/admission_vectors.json").read_text(encoding="utf-8")
)
DEFAULTS: dict[str, str] = _FILE["default_config"]
CASES: list[dict[str, Any]] = _FILE["cases"]
_DENIED_BOB = "user bob with groups [g] is not allowed to set user annotation"
_CHANGED = "user info annotation change is not allowed"

# Our own answers. tests/vectors/DEVIATIONS.md explains them.
DEVIATIONS: dict[str, dict[str, Any]] = {
    "adm-011": {
        "allowed": True,
        "message": None,
        "patch": [
            {
                "op": "add",
                "path": "/spec/template/metadata/annotations",
                "value": {"yunikorn.apache.org/user.info": '{"user":"testExtUser"}'},
            }
        ],
    },
    "adm-132": {
        "allowed": True,
        "message": None,
        "patch": [
            {
                "op": "add",
                "path": "/spec",
                "value": {
                    "template": {
                        "metadata": {
                            "annotations": {
                                "yunikorn.apache.org/user.info": '{"user":"bob","groups":["g"]}'
                            }
                        }
                    }
                },
            }
        ],
    },
    "adm-135": {"allowed": False, "message": _DENIED_BOB, "patch": []},
    "adm-168": {"allowed": False, "message": _DENIED_BOB, "patch": []},
    "adm-181": {
        "allowed": True,
        "message": None,
        "patch": [
            {
                "op": "add",
                "path": "/spec/template/metadata/annotations",
                "value": {
                    "yunikorn.apache.org/app-id": "app-1",
                    "yunikorn.apache.org/user.info": '{"user":"bob","groups":["g"]}',
                },
            }
        ],
    },
    "adm-202": {"allowed": False, "message": _CHANGED, "patch": []},
    "adm-206": {"allowed": False, "message": _CHANGED, "patch": []},
    "adm-221": {"allowed": False, "message": _CHANGED, "patch": []},
    "adm-222": {"allowed": False, "message": _CHANGED, "patch": []},
    "adm-226": {"allowed": False, "message": _CHANGED, "patch": []},
}


def body(case: dict[str, Any]) -> bytes:
    """The case as the body of a review. Bytes that are not JSON become a JSON string, because a
    body that contains them literally is refused as a whole."""
    request = dict(case["request"])
    for raw, name in (("objectRaw", "object"), ("oldObjectRaw", "oldObject")):
        if raw in request:
            text = request.pop(raw)
            try:
                request[name] = json.loads(text)
            except ValueError:
                request[name] = text
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def settings_of(case: dict[str, Any]) -> YuniKornSettings:
    """The settings of the case. If they are invalid, the previous ones stay in effect: the
    defaults.
    """
    try:
        return read_settings({**DEFAULTS, **case["config"]})
    except YuniKornSettingsError:
        return read_settings(DEFAULTS)


def assert_expected(
    case: dict[str, Any], allowed: bool, message: str | None, patch: list[Any]
) -> None:
    expect = case["expect"]
    ours = DEVIATIONS.get(case["id"])
    if ours is not None:
        assert ours != {key: expect.get(key) for key in ours}, "no longer differs"
        expect = ours
    assert allowed is expect["allowed"], message
    assert patch == expect["patch"]
    if expect.get("message_any"):
        assert message
    elif "message_contains" in expect:
        assert expect["message_contains"] in (message or "")
    else:
        assert message == expect["message"]
