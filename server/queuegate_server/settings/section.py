"""What all parts of the settings have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen, and without keys that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
