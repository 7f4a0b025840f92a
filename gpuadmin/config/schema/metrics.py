"""What is measured, how long it is kept, and who is told. It is in force where the group `monitor` has a host."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gpuadmin.config.fields import Email, Text, UserName, plain_text
from gpuadmin.config.schema.base import Model
from gpuadmin.config.schema.dashboard import Dashboard


def _web_address(value: str) -> str:
    plain_text(value, longest=1000)
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", value):
        raise ValueError(f"{value[:60]!r} is not an address: one begins with https:// or http://, and has no blanks")
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]


class Journals(Model):
    """What hosts log, on the monitor host, for `gpuadmin logs`; people's own journals stay where they are."""

    enabled: Annotated[bool, Field(description="Whether hosts send what their system logs to the monitor host.")] = True
    keep_days: Annotated[int, Field(ge=1, le=365, description="How many days it is kept; a day later it is gone.")] = 14
    host_mb: Annotated[int, Field(ge=256, le=100000, description="MB of one host's; its oldest lines go first.")] = 512


class Metrics(Model):
    """Measurements and alerts: Prometheus on the host of group `monitor`. The page "monitoring" of the
    documentation explains all of it."""

    interval: Annotated[int, Field(ge=10, le=300, description="Seconds between two looks at a host.")] = 30
    keep_days: Annotated[int, Field(ge=1, le=3650, description="How many days of measurements are kept.")] = 180
    keep_gb: Annotated[
        int, Field(ge=1, le=100000, description="How many GB they may take on the monitor host; the oldest go first.")
    ] = 50
    exporter_port: Annotated[
        int, Field(ge=1, le=65535, description="TCP port on every host that the monitor host asks.")
    ] = 9100
    port: Annotated[
        int, Field(ge=1, le=65535, description="TCP port of Prometheus, on the monitor host's loopback interface.")
    ] = 9090
    mail_to: Annotated[
        list[Email],
        Field(description="Who gets alerts by mail, through the server that `mail` names; if empty, no mail is sent."),
    ] = []
    webhook: Annotated[
        WebAddress | None, Field(description="Where alerts are posted to as well, as Alertmanager's webhook.")
    ] = None
    heartbeat: Annotated[
        WebAddress | None,
        Field(
            description="An address outside of the cluster that is posted to every 5 minutes while monitoring works; "
            "who watches it is told when it stays out."
        ),
    ] = None
    idle_hours: Annotated[
        int,
        Field(ge=1, le=168, description="How long a GPU is held without being used until `gpuadmin idle` shows it."),
    ] = 2
    idle_stop: Annotated[
        bool,
        Field(
            description="Whether `gpuadmin idle --act` ends what holds a GPU without using it, after it has told its "
            "person. It needs `mail`: who was not mailed is not stopped."
        ),
    ] = False
    idle_notice_hours: Annotated[
        int,
        Field(
            ge=1,
            le=168,
            description="How many hours after the mail `gpuadmin idle --act` ends what holds a GPU unused, or after "
            "its grant.",
        ),
    ] = 4
    idle_exempt: Annotated[
        list[UserName], Field(description="People who may hold a GPU idle; `gpuadmin idle` shows them as exempt.")
    ] = []
    power_budgets: Annotated[
        dict[Text, Annotated[int, Field(ge=1, le=10**7)]],
        Field(
            description="By a part of the inventory's `place`, such as a room or a rack: how many watts its hosts may "
            "draw together before an alert."
        ),
    ] = {}
    price_per_kwh: Annotated[
        float | None,
        Field(gt=0, le=1e6, description="What a kWh costs; without it reports have kWh and no cost."),
    ] = None
    currency: Annotated[Text, Field(description="Of `price_per_kwh`, as reports write it behind a sum.")] = "KRW"
    dashboard: Annotated[Dashboard, Field(description="The web page that shows it.")] = Dashboard()
    journals: Annotated[Journals, Field(description="What hosts log, kept apart from them.")] = Journals()
