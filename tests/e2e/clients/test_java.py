"""The client for Java: its own tests, which also ask a real server and replay the vectors."""

import sysconfig
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.maven import BUILD_SECONDS, CLIENT, maven

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
NEEDED = {
    "BoundsTest.partsWithoutEnd",
    "ClientServerTest.everyCall",
    "ClientServerTest.queueVectors",
    "ClientServerTest.unixSockets",
    "DifferentialTest.aGateDecidesAsTheServer",
    "ExpiredCertificatesTest.theCallersCertificate",
    "GateFakeTest.decisionsAreTold",
    "GateFakeTest.threadsShareAGate",
    "GateServerTest.aGateInAProcessThatIsStopped",
    "GateServerTest.aServerThatRestarts",
    "GateServerTest.callsThatWaitForGates",
    "GateVectorsTest.oddTables",
    "GateVectorsTest.vectors",
    "PlantedFaultsTest.aTestFinds(Planted)[77]",
    "PlantedFaultsTest.withoutAFaultTheTestsPass",
    "SessionTest.aLeaseStartsWhenThePingIsSent",
    "TellingTest.aProgramThatTakesTime",
    "TlsServerTest.callers",
}


def test_the_tests_of_the_module() -> None:
    """None of them is skipped."""
    program = Path(sysconfig.get_path("scripts")) / "queuegate-server"
    done = maven(CLIENT, "clean", "test", TEST_QUEUEGATE_SERVER=str(program))
    assert done.returncode == 0, (done.stdout + done.stderr)[-10_000:]
    passed = set()
    for report in (CLIENT / "target" / "surefire-reports").glob("TEST-*.xml"):
        suite = ET.fromstring(report.read_text())  # noqa: S314 - ours
        for case in suite.iter("testcase"):
            name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name']}"
            assert [each.tag for each in case if each.tag[:6] != "system"] == [], name
            passed.add(name)
    assert passed >= NEEDED
