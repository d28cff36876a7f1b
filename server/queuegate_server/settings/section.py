"""What all parts of the settings have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the settings: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
