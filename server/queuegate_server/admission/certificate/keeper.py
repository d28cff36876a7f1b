"""Keeps the webhook's certificate in a Secret, and its CA in the webhook configurations."""

import base64
import binascii
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from queuegate_server.admission.certificate.issuer import AUTHORITIES, issue, why_renew
from queuegate_server.admission.kubernetes_api import KubernetesApi, KubernetesApiError

_LOG = logging.getLogger("queuegate_server.admission.certificate")
SECONDS: Final = 10.0
"""How often the objects are compared with their desired state."""
_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
_STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
_NOT_FOUND: Final = 404
_Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CertificateObjects:
    """The objects that hold a webhook's certificate and its CA."""

    namespace: str
    service: str
    secret: str
    """The name of the Secret, in the namespace of the Service. It must exist; it may be empty."""
    configurations: Sequence[str]
    """The webhook configurations that call the Service: PLURAL/NAME. They need not exist."""

    @property
    def host(self) -> str:
        """The name in the certificate."""
        return f"{self.service}.{self.namespace}.svc"


class CertificateKeeper:
    """Repeatedly compares the objects with their desired state, and corrects them.

    Args:
        api: The API server, with an account that may read and update the Secret, and read and
            patch the configurations.
        objects: The objects to keep in their desired state.
        clock: Returns the current time, with a time zone.
    """

    def __init__(
        self, api: KubernetesApi, objects: CertificateObjects, clock: Callable[[], datetime]
    ) -> None:
        self._api = api
        self._objects = objects
        self._clock = clock
        self._failure = ""

    def run(self, stop: threading.Event) -> None:
        """Keep the objects in their desired state until `stop` is set. Logs failures, and tries
        again.
        """
        while not stop.is_set():
            try:
                self.step()
                self._failure = ""
            except KubernetesApiError as error:
                self._log_once(str(error))
            stop.wait(SECONDS)

    def step(self) -> None:
        """Correct what is wrong. Raises KubernetesApiError; the next step continues."""
        authorities = base64.b64encode(self._certificate()[AUTHORITIES]).decode("ascii")
        for each in self._objects.configurations:
            self._trust(each, authorities)

    def _certificate(self) -> Mapping[str, bytes]:
        """Return the Secret's content, after replacing its certificate if necessary."""
        objects = self._objects
        path = f"/api/v1/namespaces/{objects.namespace}/secrets/{objects.secret}"
        secret = self._request("GET", path)
        files = _decoded(secret)
        reason = why_renew(files, objects.host, self._clock())
        if not reason:
            return files
        issued = issue(objects.host, self._clock(), files)
        data = {name: base64.b64encode(content).decode() for name, content in issued.items()}
        # The version in its metadata makes the update fail if the Secret has changed in the
        # meantime.
        self._request("PUT", path, {**secret, "data": data})
        _LOG.info("a certificate was issued", extra={"host": objects.host, "reason": reason})
        return issued

    def _trust(self, configuration: str, authorities: str) -> None:
        """Make the API server trust the CAs for all webhooks in a configuration."""
        path = f"{_REGISTRATION}/{configuration}"
        try:
            found = self._request("GET", path)
        except KubernetesApiError as error:
            if error.status == _NOT_FOUND:
                return
            raise
        webhooks = [
            {"name": each["name"], "clientConfig": {"caBundle": authorities}}
            for each in found.get("webhooks") or ()
            if self._is_ours(each) and each["clientConfig"].get("caBundle") != authorities
        ]
        if webhooks:
            # The API server merges webhooks by name.
            self._request("PATCH", path, {"webhooks": webhooks}, _STRATEGIC_MERGE)
            _LOG.info("the API server trusts the CA", extra={"configuration": configuration})

    def _is_ours(self, webhook: _Object) -> bool:
        service = webhook["clientConfig"].get("service") or {}
        named = (service.get("namespace"), service.get("name"))
        return named == (self._objects.namespace, self._objects.service)

    def _request(self, method: str, path: str, *content: Any) -> dict[str, Any]:
        try:
            return self._api.request(method, path, *content)
        except KubernetesApiError as error:
            raise KubernetesApiError(f"{method} {path}: {error}", error.status) from None

    def _log_once(self, failure: str) -> None:
        if failure != self._failure:
            self._failure = failure
            _LOG.error("the certificate cannot be kept", extra={"reason": failure})


def _decoded(secret: _Object) -> dict[str, bytes]:
    """Return the content of a Secret. A value that is not base64 becomes empty."""
    found = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            found[name] = b""
    return found
