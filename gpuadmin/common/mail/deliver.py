"""Sending letters: each is in the ledger before it is handed over, and its outcome after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from .ledger import Ledger, MailError, State
from .letter import Letter
from .message import AddressError
from .transport import Answer, Transport, TransportDown


@dataclass(frozen=True)
class Delivery:
    """What became of a letter."""

    letter: Letter
    state: State
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.state is State.SENT

    def document(self) -> dict[str, Any]:
        """As a run's record has it."""
        letter = self.letter
        return {
            "address": letter.address,
            "names": list(letter.names),
            "about": letter.summary,
            "state": self.state.value,
            "detail": self.detail,
        }


def deliver(
    letters: Sequence[Letter],
    ledger: Ledger,
    render: Callable[[Letter], EmailMessage],
    open_transport: Callable[[], Transport],
    on_delivery: Callable[[Delivery], None] = lambda delivery: None,
) -> list[Delivery]:
    """Send letters, and return what became of each. One that is refused does not keep the others back.

    All of them are rendered before the first is sent, so a mistake in a template sends nothing (the error of `render`);
    and a server that does not answer at all is an error before anything is written (that of `open_transport`). When it
    goes away in the middle, the rest is failed, and the next run sends it.
    """

    def try_render(letter: Letter) -> EmailMessage | Answer:
        try:
            return render(letter)
        except AddressError as error:  # guard: an address that no mail can have keeps nobody else's mail back
            return Answer(State.REFUSED, str(error))

    messages = [(letter, try_render(letter)) for letter in letters]
    if not messages:
        return []
    done: list[Delivery] = []
    down: str | None = None
    with open_transport() as transport:
        for letter, message in messages:
            if down is None:
                # guard: a mail is in the ledger before it is handed over -> 'x'
                attempt = ledger.begin(letter, transport.name)
                try:
                    answer = message if isinstance(message, Answer) else transport.send(message)
                except (TransportDown, MailError) as error:
                    down = str(error)
                    answer = Answer(State.FAILED, down)
                ledger.finish(letter, attempt, answer.state, answer.detail)
            else:
                answer = Answer(State.FAILED, f"not tried: {down}")
            done.append(Delivery(letter, answer.state, answer.detail))
            on_delivery(done[-1])
    return done
