"""The jar for Hadoop: it disturbs no other class of the process, and Java 8 can load it."""

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.resourcemanager.process import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 60)

MAX_BYTES = 16_000_000
JAVA_8 = 52
OURS = re.compile(r"io/queuegate/|io/grpc/netty/shaded/|META-INF/")
VERSIONED = re.compile(r"META-INF/versions/\d+/")


@pytest.fixture(scope="module")
def files(jar: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(jar) as opened:
        yield opened


def test_it_is_small(jar: Path) -> None:
    assert jar.stat().st_size < MAX_BYTES


def test_its_classes_have_names_of_their_own(files: zipfile.ZipFile) -> None:
    names = [name for name in files.namelist() if not name.endswith("/")]
    assert [name for name in names if not OURS.match(VERSIONED.sub("", name))] == []
    services = [name.removeprefix("META-INF/services/") for name in names if "/services/" in name]
    assert services
    assert [name for name in services if not name.startswith("io.queuegate.")] == []


def test_it_has_no_native_tls(files: zipfile.ZipFile) -> None:
    native = [name for name in files.namelist() if name.startswith("META-INF/native/")]
    assert [name for name in native if "epoll" not in name and not name.endswith("/")] == []


def test_java_8_loads_its_classes(files: zipfile.ZipFile) -> None:
    for name in files.namelist():
        if name.endswith(".class") and not VERSIONED.match(name):
            version = struct.unpack(">IHH", files.open(name).read(8))[2]
            assert version <= JAVA_8, name


def test_spark_s_interface_is_not_in_it(files: zipfile.ZipFile) -> None:
    assert not [name for name in files.namelist() if "apache/spark" in name]
