"""Facts that stand once: in gpuadmin/common/ what the controller and the nodes both need, and in node code its own."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / "gpuadmin/collections"
CODE = COLLECTIONS / "ansible_collections/gpuadmin/node/plugins/module_utils"


def test_patterns_of_names_and_times_stand_once_on_nodes() -> None:
    """A login name, a time in a name: others are made of them."""
    text = {path: path.read_text() for path in CODE.rglob("*.py")}
    for pattern in (r"\[0-9\]\{+8\}+T", r"FIRST_HUMAN_UID = ", r"homes\.lock"):
        assert len([path for path, code in text.items() if re.search(pattern, code)]) == 1, pattern
    for pattern in (r"a-z0-9_-\]\{0,31\}", r"\[a-z0-9\]\[a-z0-9_-\]\*\(", "sk-ssh-ed25519@"):
        found = [path for path in (ROOT / "gpuadmin").rglob("*.py") if re.search(pattern, path.read_text())]
        assert found == [ROOT / "gpuadmin/common/names.py"], pattern
