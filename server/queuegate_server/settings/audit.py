"""Settings of the audit log."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from queuegate_server.settings.section import Section
from queuegate_server.units import Size

STDOUT: Final = Path("-")
"""Stands for the standard output of the process."""

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


def _path(value: object) -> object:
    if isinstance(value, str) and (not value or "\0" in value):
        raise PydanticCustomError("path", "not a path of a file, and not - for standard output")
    return value


class Audit(Section):
    """Which decisions are recorded, where, and what happens when they cannot be."""

    path: Annotated[Path, BeforeValidator(_path)] | None = Field(
        None, description="The file, or - for standard output. Without it nothing is recorded."
    )
    records: Literal["denials", "all", "none"] = Field(
        "denials", description="denials: what was denied or could not be decided."
    )
    when_unwritable: Literal["block", "drop"] = Field(
        "block",
        description="block: calls fail while their record cannot be written; an answer is given "
        "after its record was. drop: the record is lost, and counted.",
    )
    fsync: Literal["never", "interval", "always"] = Field(
        "interval",
        description="When records are forced to the disk, so that they outlive a loss of power: "
        "with every write, once a second, or when the system likes.",
    )
    max_size: Annotated[Size, Field(ge=4 * _KIB, le=1024 * 1024 * _MIB)] = Field(
        100 * _MIB, description="The file is rotated before it grows beyond this."
    )
    keep: int = Field(5, ge=0, le=1000, description="How many rotated files are kept.")
    buffer: Annotated[Size, Field(ge=4 * _KIB, le=1024 * _MIB)] = Field(
        16 * _MIB,
        description="How much may wait to be written: requests and answers, in bytes.",
    )

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.path is not None and self.records != "none"

    def of_worker(self, index: int) -> "Audit":
        """Return the settings of one worker of several, which has a file of its own."""
        if self.path in {None, STDOUT}:
            return self
        path = self.path.with_name(f"{self.path.name}.worker-{index}")
        return self.model_copy(update={"path": path})
