"""Text for Prometheus: what a label's value is cannot become another line or another label."""

import re

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.exposition import Samples
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.common.metrics import METRICS

LINE = re.compile(r'gpuadmin_collector_incomplete\{user="(?:[^"\\\n]|\\["\\n])*"\} 1')


def test_a_metric_with_its_help() -> None:
    samples = Samples()
    samples.put("gpuadmin_gpus_on_bus", 2)
    samples.put("gpuadmin_gpu_power_watts", 121.5, uuid="GPU-1")
    samples.put("gpuadmin_gpu_power_watts", None, uuid="GPU-2")
    samples.put("gpuadmin_gpu_power_watts", float("nan"), uuid="GPU-3")
    assert samples.render() == (
        "# HELP gpuadmin_gpus_on_bus GPUs on the PCI bus.\n"
        "# TYPE gpuadmin_gpus_on_bus gauge\n"
        "gpuadmin_gpus_on_bus 2\n"
        "# HELP gpuadmin_gpu_power_watts Power that the GPU draws.\n"
        "# TYPE gpuadmin_gpu_power_watts gauge\n"
        'gpuadmin_gpu_power_watts{uuid="GPU-1"} 121.5\n'
    )


def test_what_the_table_lacks_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Samples().put("gpuadmin_other", 1)
    with pytest.raises(KeyError):
        Samples().put("gpuadmin_gpu_power_watts", 1, uuid="x", pid="7")


@settings(max_examples=300)
@given(st.text())
def test_a_label_is_one_label_whatever_is_in_it(text: str) -> None:
    samples = Samples()
    samples.put("gpuadmin_collector_incomplete", 1, user=text)
    lines = samples.render().split("\n")
    assert len(lines) == 4
    assert LINE.fullmatch(lines[2])
    lines[2].encode()


def test_names_and_labels_are_as_prometheus_wants_them() -> None:
    for one in METRICS:
        assert re.fullmatch(r"gpuadmin_[a-z_]+[a-z]", one.name)
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
        assert not set(one.labels) & {"pid", "command", "instance", "job"}, one.name
        assert one.help.endswith((".", "use."))
    assert len({one.name for one in METRICS}) == len(METRICS)
