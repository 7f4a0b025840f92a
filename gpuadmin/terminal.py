"""rich's console, for data: nothing that a terminal obeys gets through it. `gpuadmin.console` makes it when needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gpuadmin.text import one_line, visible


class SafeConsole(Console):
    """A console for data: a string is text, never markup, and unprintable characters are shown as escapes.

    Styles come from our own templates, as `Text` objects.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Before the layout, so that columns are as wide as what is shown. A string is one line: several are `Text`."""
        return super().render_str(
            one_line(text),  # guard: a string is one line of output -> visible(text)
            **options
            | {
                "markup": False,  # guard: a text of the console is not markup -> True
                "emoji": False,
                "highlight": False,
            },
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """After it, whatever the text was wrapped in: the only segments with control codes are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
