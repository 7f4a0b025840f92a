"""What benchmarks use of this checkout that is not installed: tests/support and the collection. Imported first."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "gpuadmin/collections")]
