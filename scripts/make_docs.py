"""Write the files that are made from code, roles and decisions; with --check only say which are out of date."""

from __future__ import annotations

import sys

from pages import ROOT, outdated, pages


def main() -> int:
    stale = outdated()
    if "--check" in sys.argv[1:]:
        print("\n".join(f"{name} is out of date: make docs" for name in stale), end="\n" if stale else "")
        return int(bool(stale))
    texts = pages()
    for name in stale:
        (ROOT / name).write_text(texts[name], encoding="utf-8")
        print(f"Wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
