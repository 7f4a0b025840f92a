"""What all sections share: no unknown fields, no changes, and which ids are people's."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

# Below 1000 are system accounts, 60001-60513 belong to systemd-homed, 61184-65519 to its dynamic users, 65534 is
# nobody: https://systemd.io/UIDS-GIDS. docs/decisions/0002-uids-and-subids.md has the whole reasoning.
LOWEST_HUMAN_UID, HIGHEST_HUMAN_UID = 1000, 60000
HIGHEST_SUBID = 2**32 - 2  # 2**32 - 1 is the kernel's "no uid"


class Model(BaseModel):
    """Fields of a site; what earlier releases had besides is in `GONE` of validate.py."""

    model_config = ConfigDict(extra="forbid", frozen=True)
