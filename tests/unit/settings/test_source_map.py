"""Faults of settings from several sources: all at once, each with where its value came from."""

from pathlib import Path

import pytest

from tests.support.settings_faults import faults


@pytest.mark.parametrize(
    ("variables", "options", "fault"),
    [
        (
            {"QUEUEGATE_DRAIN__GRACE": "soon"},
            [],
            "QUEUEGATE_DRAIN__GRACE: error: drain.grace: not a duration",
        ),
        ({}, ["drain.grace=soon"], "--set drain.grace: error: drain.grace: not a duration"),
        (
            {},
            ["drain.z=1"],
            "--set drain.z: error: drain.z: unknown key (known keys are delay, grace)",
        ),
        ({}, ["z=1"], "--set z: error: z: unknown key (known keys are "),
        (
            {"QUEUEGATE_RESOLVERS__R__LOOKUP_TIMEOUT": "1s"},
            [],
            "QUEUEGATE_RESOLVERS__R__LOOKUP_TIMEOUT: error: resolvers.r.type: is required",
        ),
        ({"QUEUEGATE_DRAIN": "1s"}, [], "QUEUEGATE_DRAIN: error: drain: must be a section"),
        (
            {"QUEUEGATE_DRAIN": "1s", "QUEUEGATE_DRAIN__GRACE": "1s"},
            [],
            "QUEUEGATE_DRAIN__GRACE: error: drain is a single value, not a section",
        ),
    ],
)
def test_fault_elsewhere_names_its_origin(
    variables: dict[str, str], options: list[str], fault: str
) -> None:
    assert any(line.startswith(fault) for line in faults(None, "", variables, *options))


def test_a_value_laid_over_the_file_is_not_blamed_on_it(file: Path) -> None:
    [fault] = faults(file, "drain: {grace: 1s, delay: 1s}", {"QUEUEGATE_DRAIN__GRACE": "x"})
    assert fault.startswith("QUEUEGATE_DRAIN__GRACE: error: drain.grace: ")


def test_a_fault_in_the_file_is_not_blamed_on_what_is_laid_over_it(file: Path) -> None:
    [fault] = faults(file, "drain: {grace: x}", {"QUEUEGATE_DRAIN__DELAY": "1s"})
    assert fault.startswith("queuegate.yaml:1:16: error: drain.grace: ")


def test_every_fault_is_told_at_once(file: Path) -> None:
    text = """\
listen: [localhost]
polcy: {path: x}
resolvers:
  a: {type: nis}
  b: {type: os, max_concurrent: 0, z: 1}
partitions:
  default: {resolver: c, cache: {positive_ttl: -1}}
drain: {grace: 1s, grace: 2s}
"""
    found = faults(
        file,
        text,
        {"QUEUEGATE_LOG_LEVEL": "x", "QUEUEGATE_LIMITS__MAX_MESSAGE": "x"},
        "nonsense",
        "drain.delay=x",
    )
    assert [line.split(": error: ")[0] for line in found] == [
        "--set drain.delay",
        "--set nonsense",
        "QUEUEGATE_LIMITS__MAX_MESSAGE",
        "QUEUEGATE_LOG_LEVEL",
        "queuegate.yaml:1:10",
        "queuegate.yaml:2:1",
        "queuegate.yaml:4:13",
        "queuegate.yaml:5:33",
        "queuegate.yaml:5:36",
        "queuegate.yaml:7:23",
        "queuegate.yaml:7:48",
        "queuegate.yaml:8:20",
    ]


def test_values_are_not_repeated_in_findings(file: Path) -> None:
    text = "resolvers: {r: {type: os, bind_password: hunter2, max_concurrent: hunter2}}"
    found = "\n".join(faults(file, text, {"QUEUEGATE_LIMITS__MAX_MESSAGE": "hunter2"}))
    assert "hunter2" not in found
    assert "resolvers.r.bind_password: unknown key" in found
