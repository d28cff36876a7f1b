"""Messages about a queue in a list of names point to that name."""

import gzip
import time

import pytest

from queuegate_server.formats.registry import check_file, load_policy
from queuegate_server.formats.yarn.convert import convert
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.rows import rows

QUEUES = "<property><name>yarn.scheduler.capacity.root.queues</name>"
VARIABLE = "<property><name>x</name><value>bad!</value></property>"


def text(value: str, more: str = "") -> str:
    return f"<configuration>\n{more}{QUEUES}\n{value}</property>\n</configuration>"


def places(file: str, data: bytes) -> list[str]:
    lost = convert("capacity-scheduler", data, file, YarnOptions()).lost
    return [f"{each.line}:{each.column}:{each.message.partition(' ')[0]}" for each in lost]


@rows
def test_a_name_that_cannot_be_converted(value: str, expected: list[str]) -> None:
    assert sorted(places("cs.xml", text(value).encode())) == sorted(expected)


def test_a_name_from_a_variable_has_the_place_of_the_list() -> None:
    value = "<value>good,${x},b?</value>"
    data = text(value, VARIABLE + "\n").encode()
    assert places("cs.xml", data) == ['4:1:"bad!"', '4:18:"b?"']


def test_names_in_an_attribute_have_the_place_of_the_property() -> None:
    data = '<configuration>\n <property name="yarn.scheduler.capacity.root.queues" value="a,b!"/>'
    assert places("cs.xml", f"{data}</configuration>".encode()) == ['2:2:"b!"']


def test_names_in_yarn_site() -> None:
    """The list of another file is not looked up in this one."""
    enabled = "<property><name>yarn.acl.enable</name><value>true</value></property>"
    site = text("<value>good,bad!</value>", enabled).encode()
    options = YarnOptions(site=(site, "yarn-site.xml"))
    other = b"<configuration>\n\n<value>x,y</value></configuration>"
    (lost,) = convert("capacity-scheduler", other, "cs.xml", options).lost
    assert (lost.file, lost.line, lost.column) == ("yarn-site.xml", 3, 1)


def test_other_messages_about_names() -> None:
    data = text("<value>good,a.b,\n good</value>").encode()
    found = load_policy("capacity-scheduler", data, "cs.xml").diagnostics
    assert [(each.line, each.column, each.message.split(" ")[-1]) for each in found] == [
        (3, 13, "dot"),
        (4, 2, "twice"),
    ]


def test_names_in_a_manifest_have_columns_of_the_file() -> None:
    inner = text("<value>good,a.b</value>").replace("\n", "\n    ")
    data = f"kind: ConfigMap\ndata:\n  capacity-scheduler.xml: |\n    {inner}\n".encode()
    for each, file in ((data, "cm.yaml"), (gzip.compress(data), "cm.yaml.gz")):
        (found,) = check_file("capacity-scheduler", each, file, with_lint=False)
        assert (found.line, found.column) == (6, 17)


@pytest.mark.parametrize("piece", ["a\n", ",\n", "a,"])
def test_a_long_list_is_read_in_time(piece: str) -> None:
    data = text(f"<value>{piece * 300_000}</value>").encode()
    started = time.process_time()
    load_policy("capacity-scheduler", data, "cs.xml")
    assert time.process_time() - started < 30
