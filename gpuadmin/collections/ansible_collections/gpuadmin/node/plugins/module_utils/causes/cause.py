"""A cause, and the person it is about as their site knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.common.records.diagnosis import Cause
from gpuadmin.common.records.diagnosis import RegisteredPerson as Person

__all__ = ["Cause", "Facts", "Person"]

#: What a host's part of a diagnosis found, by the part's name; see diagnosis/collect.py.
Facts = Mapping[str, Any]
