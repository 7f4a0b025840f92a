"""An admin's own command: its exit status and its output, as much of it as a report may have."""

from __future__ import annotations

from .run import Runner, run_apart

#: Characters of each of the two streams: answers of hundreds of hosts fit into the controller's memory.
MOST = 200_000


def shortened(text: str, most: int = MOST) -> str:
    """Given an output, return it, or its beginning and end with a line between them that says how much is missing."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def answer(line: str, run: Runner = run_apart) -> dict[str, object]:
    """Given a line for the shell, run it from / and return its exit ``status``, its ``output`` and its ``errors``.

    What the line leaves in the background goes on, and nobody waits for it.
    """
    done = run(("/bin/sh", "-c", f"cd / || exit\n{line}"))
    return {"status": done.returncode, "output": shortened(done.stdout), "errors": shortened(done.stderr)}
