"""A saved moment of a lab stays until somebody says that it may go."""

import pytest

from gpuadmin.errors import ConfigError
from gpuadmin.lab import snapshots, state
from gpuadmin.lab.progress import Progress


@pytest.mark.holds("a saved state is not replaced unasked")
def test_a_saved_moment_is_not_replaced_unasked(lab: state.Lab) -> None:
    state.save(lab.with_snapshot("fresh"))
    with pytest.raises(ConfigError, match="fresh is saved already") as refused:
        snapshots.save("default", "fresh", Progress(), replace=False)
    assert "--replace" in str(refused.value.hint)
    for name, replace in (("fresh", True), ("other", False)):
        with pytest.raises(ConfigError, match="is off"):
            snapshots.save("default", name, Progress(), replace=replace)
