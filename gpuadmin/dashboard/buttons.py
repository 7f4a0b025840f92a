"""What happens when somebody presses a button of a page: it is theirs, of this page, and pressed once; then the queue's
host does it as them, by the program that they would have typed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..common.names import name_gpu_type
from ..common.pressed import Pressed, press
from .access import Access, read_form
from .answer_turns import AnswerTurns
from .door import Door
from .files import DashboardError
from .pages import Pages, choose_language
from .snapshot import Snapshot
from .viewer import Settings, Viewer

#: What is said where nothing was done, by the word for why: an HTTP status and the key of a text.
REFUSALS = {
    "origin": (403, "pressed-late"), "form": (403, "pressed-late"), "spent": (409, "pressed-twice"),
    "full": (429, "pressed-often"),
}  # fmt: skip
#: The same for what the door says besides the statuses of `gpu` (web_door.py).
DOOR = {8: (403, "pressed-locked"), 9: (504, "pressed-unsure")}


class Buttons:
    """The buttons of a site. ``door``: None where it has none."""

    def __init__(self, door: Door | None, access: Access, pages: Pages, settings: Settings) -> None:
        self._door, self._access, self._pages, self._settings = door, access, pages, settings
        self._turns = AnswerTurns()

    def offer(self, viewer: Viewer, look: Snapshot) -> dict[str, object]:
        """What a page needs for its buttons: their names, types of GPUs, and what makes the secret of a form."""
        models = {device.name for node in look.nodes for device in node.devices if device.usable}
        types = sorted({name_gpu_type(one) for one in models} - {""})
        return {
            "verbs": self._list_verbs(viewer),
            "types": types,
            "form_secret": lambda: self._access.sign_form(viewer),
        }

    def _list_verbs(self, viewer: Viewer) -> Sequence[str]:
        # guard: an admin's session presses no buttons -> self._settings.buttons
        return () if self._door is None or viewer.admin else self._settings.buttons

    async def press(self, request: Request, viewer: Viewer, look: Snapshot) -> Response:
        """Do it, and show what `gpu` says; or say why nothing was done. Raises HTTPException."""
        verb = request.path_params["verb"]
        if self._door is None or verb not in self._list_verbs(viewer):
            raise HTTPException(404)
        if not self._access.same_origin(request, certain=True):
            return self._refuse(request, viewer, *REFUSALS["origin"])
        fields = await read_form(request)
        pressed = press(viewer.name, choose_language(request, self._settings), verb, fields)
        if pressed is None:
            return self._refuse(request, viewer, 400, "pressed-odd")
        refused = self._access.spend_form(viewer, fields.get("form", ""))
        if refused:
            return self._refuse(request, viewer, *REFUSALS[refused])
        return await self._ask(request, viewer, look, pressed)

    async def _ask(self, request: Request, viewer: Viewer, look: Snapshot, pressed: Pressed) -> Response:
        """Have it done, and show what `gpu` says."""
        assert self._door is not None
        try:
            async with self._turns.take(viewer.name):
                status, text = await self._door.ask(pressed)
        except DashboardError as error:
            print(f"dashboard: {error}", file=sys.stderr)
            return self._refuse(request, viewer, 504, "pressed-unsure")
        if status in DOOR:
            return self._refuse(request, viewer, *DOOR[status])
        values = {"verb": pressed.verb, "said": text, "done": status == 0, "look": look}
        return self._pages.page(request, "pressed.html", values, viewer, status=200 if status == 0 else 409)

    async def show_jobs(self, request: Request, viewer: Viewer, look: Snapshot) -> Response:
        """The person's own jobs of 30 days, as `gpu jobs` has them. Raises HTTPException."""
        pressed = press(viewer.name, choose_language(request, self._settings), "jobs", {})
        if pressed is None or "jobs" not in self._list_verbs(viewer):
            raise HTTPException(404)
        return await self._ask(request, viewer, look, pressed)

    def _refuse(self, request: Request, viewer: Viewer, status: int, why: str) -> Response:
        return self._pages.message(request, status, "pressed-not", why, viewer)
