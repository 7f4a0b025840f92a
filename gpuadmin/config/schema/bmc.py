"""BMCs: what they have in common (`bmc` in gpuadmin.yml), and a host's own (`bmc` in the inventory)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuadmin.config.fields import HostName, LocalFile, Text
from gpuadmin.config.schema.base import Model


class Sensors(Model):
    """What BMCs measure, asked by IPMI from the monitor host, which has this password then: name an account that may
    only read (*User*)."""

    user: Annotated[Text, Field(description="Whom to log in as.")]
    password_file: Annotated[
        LocalFile | None,
        Field(
            description="A file with the password that only you can read. GPUADMIN_BMC_SENSORS_PASSWORD comes first."
        ),
    ] = None
    workarounds: Annotated[
        list[Annotated[str, Field(pattern="^[a-z0-9]{1,40}$")]],
        Field(description="What these BMCs do in their own way, as FreeIPMI calls it (ipmi-sensors(8), WORKAROUNDS)."),
    ] = []


class Bmc(Model):
    """What the hosts' BMCs have in common. A host has its `bmc` in the inventory: `address`, and whatever differs."""

    kind: Annotated[
        Literal["redfish", "ipmi", "wol"], Field(description="`wol`: there is none; Wake-on-LAN switches the host on.")
    ] = "redfish"
    user: Annotated[Text | None, Field(description="Whom to log in as.")] = None
    password_file: Annotated[
        LocalFile | None,
        Field(description="A file with the password that only you can read. GPUADMIN_BMC_PASSWORD comes before it."),
    ] = None
    key: Annotated[
        str,
        Field(
            pattern="^([A-Za-z0-9+/]{43}=)?$",
            description="Redfish: the key of its certificate, as curl names it after `sha256//`. Without it an "
            "authority that the asking host trusts must vouch for the certificate.",
        ),
    ] = ""
    via: Annotated[
        HostName | None,
        Field(description="The host that asks BMCs. Without it storage, monitor and backup hosts, whichever answers."),
    ] = None
    sensors: Annotated[
        Sensors | None,
        Field(description="Heat, fans, supplies and watts, measured by BMCs. Without it they are not asked for any."),
    ] = None


class HostBmc(Bmc):
    """A host's `bmc`."""

    address: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-f:]+\])(:[0-9]{1,5})?$")] = ""
    mac: Annotated[str, Field(pattern="^([0-9a-f]{2}(:[0-9a-f]{2}){5})?$")] = ""
