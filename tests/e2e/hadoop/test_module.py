"""The module for Hadoop: its own tests, with a scripted gate."""

from xml.etree import ElementTree as ET

import pytest

from tests.support.maven import BUILD_SECONDS, CLIENT, maven

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
MODULE = CLIENT.parents[1] / "integrations" / "hadoop"
NEEDED = {
    "ClientLinkTest.groupsThatArriveMeanwhileCauseNoFallback",
    "GroupsCopyTest.aLookupFromBeforeAnInvalidationIsDropped",
    "HadoopCacheTest.theLastGroupOfAnInvalidatedUser",
    "PlantedFaultsTest.withoutAFaultTheTestsPass",
    "QueueDeciderTest.throwsNothing",
    "QueuegateYarnAuthorizerTest.doesNotStartWithoutAChosenFallback",
    "ServerGroupsTest.sparkGetsASet",
    "SettingsTest.theReferenceListsEachKeyWithItsDefault",
}


def test_the_tests_of_the_module() -> None:
    only_its_own = ("-Dtest=io/queuegate/hadoop/*Test", "-Dsurefire.failIfNoSpecifiedTests=false")
    done = maven(MODULE, "-f", "with-client.xml", *only_its_own, "test")
    assert done.returncode == 0, (done.stdout + done.stderr)[-10_000:]
    passed = set()
    for report in (MODULE / "target" / "surefire-reports").glob("TEST-*.xml"):
        for case in ET.fromstring(report.read_text()).iter("testcase"):  # noqa: S314 - ours
            name = case.attrib["name"].partition("(")[0]
            assert [each.tag for each in case if each.tag[:6] != "system"] == [], name
            passed.add(f"{case.attrib['classname'].rpartition('.')[2]}.{name}")
    assert passed >= NEEDED
