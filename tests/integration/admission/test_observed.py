"""The webhook's operations port and its spans, as the settings configure them."""

import json
import re
import ssl
from pathlib import Path
from typing import Any

import httpx2
import trustme

from tests.integration.admission.test_in_a_fleet import QUEUES, review
from tests.support.fakes.collector import Collector, attributes
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import run, start
from tests.support.servers.two_partitions import POLICY
from tests.support.servers.webhook import announced, write_certificate

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ROUTE = {"http.request.method": "POST"}


def certificates(folder: Path) -> tuple[dict[str, str], ssl.SSLContext]:
    """Return the settings of a new certificate, and what trusts it."""
    ca = trustme.CA()
    write_certificate(ca, folder)
    context = ssl.create_default_context()
    ca.configure_trust(context)
    files = {"certificate_file": str(folder / "tls.crt"), "key_file": str(folder / "tls.key")}
    return files, context


def test_the_settings_configure_the_operations_port_and_tracing(tmp_path: Path) -> None:
    tls, trusting = certificates(tmp_path)
    (tmp_path / "queues.yaml").write_text(POLICY)
    directory = ScriptedDirectory(tmp_path)
    directory.answer({"sam": {"groups": ["staff"]}})
    with Collector() as collector:
        settings: dict[str, Any] = {
            "policy": {"path": str(tmp_path / "queues.yaml")},
            "resolvers": {"corp": directory.resolver()},
            "partitions": {"default": {"resolver": "corp"}, "other": {"resolver": "corp"}},
            "admission": {"listen": "127.0.0.1:0", "tls": tls, "queues": QUEUES},
            "ops": {"listen": "127.0.0.1:0", "tls": tls},
            "tracing": {"enabled": True, "endpoint": collector.endpoint},
        }
        arguments = ("--config", settings_file(tmp_path, settings))
        process = start("admission", *arguments, environment=directory.environment)
        with announced(process) as (_, line), httpx2.Client(verify=trusting) as client:
            match = re.fullmatch(r"serving health on (https://\S+), reviews on (\S+)\n", line)
            assert match, line
            assert client.get(f"{match[1]}/readyz").json()["ready"]

            def post(path: str, content: str, sampled: str = "01") -> int:
                traceparent = f"00-{TRACE}-{PARENT}-{sampled}"
                headers = {"Content-Type": "application/json", "traceparent": traceparent}
                return client.post(
                    f"{match[2]}{path}", content=content, headers=headers
                ).status_code

            body = json.dumps(review("sam", "root.work"))
            assert post("/queues", body, sampled="00") == 200
            directory.answer({"eve": {"groups": ["staff"]}})
            assert post("/queues", body.replace('"sam"', '"eve"')) == 200
            assert post("/validate", "{}") == 400
            assert post("/root.secret", body) == 404
            spans = collector.wait_for(3)
        call, lookup, refused = (
            spans[name] for name in ("POST /queues", "resolve groups", "POST /validate")
        )
        assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
        assert {call.parent_span_id.hex(), refused.parent_span_id.hex()} == {PARENT}
        assert lookup.parent_span_id == call.span_id
        route = ROUTE | {"http.route": "/queues", "http.response.status_code": 200}
        assert attributes(call) == route
        assert call.status.code == refused.status.code == 0
        assert attributes(refused)["http.response.status_code"] == 400


def test_an_option_replaces_the_setting_and_a_bad_certificate_is_named(tmp_path: Path) -> None:
    tls, _ = certificates(tmp_path)
    settings: dict[str, Any] = {
        "admission": {"listen": "127.0.0.1:0", "tls": tls},
        "ops": {"listen": "192.0.2.1:9465"},
    }
    config = settings_file(tmp_path, settings)
    process = start("admission", "--config", config, "--set", "ops.listen=127.0.0.1:0")
    with announced(process) as (_, line):
        assert line.startswith("serving health on http://127.0.0.1:")
    (tmp_path / "other.key").write_text("no key")
    ops = {"listen": "127.0.0.1:0", "tls": {**tls, "key_file": str(tmp_path / "other.key")}}
    settings_file(tmp_path, {**settings, "ops": ops})
    failed = run("admission", "--config", config)
    assert failed.returncode == 2
    assert failed.stderr.startswith("Error: ops.tls: ")
