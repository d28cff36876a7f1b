"""Sends requests to the Kubernetes API with a pod's service account."""

import json
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the token and the CA for a pod's service account."""
URL: Final = "https://kubernetes.default.svc"
_MAX_BYTES: Final = 2 * 1024 * 1024


class KubernetesApiError(Exception):
    """A request failed; the message states the reason."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Create an error. `status` is the response's HTTP status; 0 if there was no response."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class KubernetesApi:
    """The API server's address, and the account used to call it. Thread-safe."""

    url: str
    account: Path
    """The folder that contains the account's `token` and `ca.crt`."""
    seconds: float
    """The time limit for connecting, and for each part of a response."""

    def request(
        self,
        method: str,
        path: str,
        content: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Return the object in the response. Blocks. Raises KubernetesApiError."""
        try:
            # Read both files each time, because Kubernetes rotates them.
            token = (self.account / "token").read_text(encoding="ascii").strip()
            context = ssl.create_default_context(cafile=self.account / "ca.crt")
            request = urllib.request.Request(  # noqa: S310 - the URL is the operator's
                f"{self.url.rstrip('/')}{path}",
                data=None if content is None else json.dumps(content).encode(),
                headers={
                    "Authorization": f"Bearer {token}",
                    "Accept": "application/json",
                    "Content-Type": content_type,
                },
                method=method,
            )
            with urllib.request.urlopen(  # noqa: S310 - as above
                request, timeout=self.seconds, context=context
            ) as response:
                read = json.loads(response.read(_MAX_BYTES))
        except HTTPError as error:
            error.close()
            raise KubernetesApiError(
                f"the API server responded with status {error.code}", error.code
            ) from None
        except URLError as error:
            raise KubernetesApiError(f"the API server cannot be reached: {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise KubernetesApiError(f"the API server cannot be reached: {error}") from None
        if not isinstance(read, dict):
            raise KubernetesApiError("the API server responded with something other than an object")
        return read
