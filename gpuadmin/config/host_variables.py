"""What the inventory may say of a host's hardware: its GPUs. Checked like any other setting of a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.config.fields import plain_text

NAMES = ("gpus", "gpu_model", "gpus_worse")
_MOST = 64
_LONGEST = 96  # of a GPU's name, as NVML has it
_WORSE = ("report", "refuse")


def problems(variables: Mapping[str, Any]) -> list[str]:
    """What is wrong with a host's variables, each as `gpus 'eight' is …`."""
    found = []
    number, model, worse = (variables.get(name) for name in NAMES)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MOST):
        found.append(f"gpus {_quoted(number)} is no number from 0 to {_MOST}: how many GPUs the node should have")
    if model is not None:
        if not isinstance(model, str) or not model.strip():
            found.append(f"gpu_model {_quoted(model)} is no text: a part of the GPUs' name, such as H100")
        else:
            try:
                plain_text(model, longest=_LONGEST)
            except ValueError as error:
                found.append(f"gpu_model {error}")
    if worse is not None and worse not in _WORSE:
        found.append(f"gpus_worse {_quoted(worse)} is neither of {', '.join(_WORSE)}")
    return found


def _quoted(value: object) -> str:
    return repr(value)[:60]
