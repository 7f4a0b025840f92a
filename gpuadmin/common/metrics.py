"""Every metric that a node's collector writes: name, type, labels and meaning. docs/reference-metrics.md is made of it.

Nothing is written that is not here (exposition.py). No label is a pid or a command line, and each has few values.
"""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER = "gauge", "counter"
#: The owner of a process that cannot be attributed without doubt. No account can have this name.
UNKNOWN = "(unknown)"
#: More containers of one person than are shown one by one.
OTHERS = "(others)"

#: States of gpuadmin_gpu_driver_state: exactly one of them is 1.
DRIVER_STATES = {
    "none": "the bus has none of NVIDIA's GPUs, and no driver is loaded",
    "missing": "the bus has NVIDIA's GPUs, and module or library of the driver are not there",
    "broken": "the driver is there and answers nothing: hung, of two versions, or with an error",
    "ok": "the driver answers",
}
#: Values of the label `source`: what is asked, and by which of the two processes.
SOURCES = {
    "bus": "sampler: the PCI bus and the driver's files",
    "nvml": "sampler: the driver, by NVML",
    "processes": "mapper: which processes hold GPUs, and whose they are",
    "grants": "mapper: what is granted to whom, where `gpus.access` is `granted`",
    "people": "mapper: what the kernel counts of each person (cgroup v2)",
    "xids": "mapper: the kernel's log",
    "disk": "gpuadmin-disk-usage, once a day: the directories of homes, of Docker's data and of scratch",
    "image": "mapper: the node's records of its image",
    "queue": "gpuadmin-metrics-queue, every minute on the host of the group `slurm`: Slurm's controller",
    "gate": "mapper: what the last trial of the GPUs' gate found",
    "counters": "mapper: the file in which counters survive a restart",
}


#: Values of the label `place`.
PLACES = {
    "homes": "storage host: the homes; each is its owner's, whoever made a file in it",
    "docker": "node: Docker's data; each directory is its owner's",
    "scratch": "node: `reset.scratch` where it is on a disk; each file is its owner's",
    "shared": "storage host: what people share; each file is its owner's",
}


@dataclass(frozen=True)
class Metric:
    """``labels``: in the order in which they are written."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS = (
    # GPUs, by the sampler
    Metric(
        "gpuadmin_gpus_expected", GAUGE, (),
        "GPUs that the inventory says this node has; absent where it says nothing.",
    ),
    Metric(
        "gpuadmin_gpus_on_bus", GAUGE, (),
        "GPUs on the PCI bus.",
    ),
    Metric(
        "gpuadmin_gpus_answering", GAUGE, (),
        "GPUs that answer through the driver.",
    ),
    Metric(
        "gpuadmin_gpu_gate_closed", GAUGE, (),
        "1 where `gpus.access` is `granted` and the last trial, at most 5 minutes ago, found that people can open only "
        "what they were granted; 0 where it found otherwise, or is older. Absent where GPUs are open to everybody.",
    ),
    Metric(
        "gpuadmin_gpu_driver_state", GAUGE, ("state",),
        "1 for the state that the driver is in, 0 for the others.",
    ),
    Metric(
        "gpuadmin_gpu_driver_info", GAUGE, ("driver", "nvml", "cuda"),
        "Versions of the driver; always 1.",
    ),
    Metric(
        "gpuadmin_gpu_info", GAUGE, ("uuid", "index", "minor", "address", "name", "mig"),
        "A GPU that answers; always 1. The label mig is true where it is divided: only its MIG devices can be "
        "used then.",
    ),
    Metric(
        "gpuadmin_gpu_silent", GAUGE, ("index", "problem"),
        "A GPU that the driver counts and that does not answer; always 1.",
    ),
    Metric(
        "gpuadmin_gpu_utilization_ratio", GAUGE, ("uuid",),
        "Part of the last sample in which something ran; absent for a divided GPU.",
    ),
    Metric(
        "gpuadmin_gpu_memory_busy_ratio", GAUGE, ("uuid",),
        "Part of the last sample in which memory was read or written.",
    ),
    Metric(
        "gpuadmin_gpu_memory_size_bytes", GAUGE, ("uuid",),
        "Memory that the GPU has.",
    ),
    Metric(
        "gpuadmin_gpu_memory_used_bytes", GAUGE, ("uuid",),
        "Memory in use, without what the driver keeps for itself.",
    ),
    Metric(
        "gpuadmin_gpu_power_watts", GAUGE, ("uuid",),
        "Power that the GPU draws.",
    ),
    Metric(
        "gpuadmin_gpu_power_limit_watts", GAUGE, ("uuid",),
        "Power at which the GPU is slowed down.",
    ),
    Metric(
        "gpuadmin_gpu_temperature_celsius", GAUGE, ("uuid",),
        "Temperature of the chip.",
    ),
    Metric(
        "gpuadmin_gpu_clock_hertz", GAUGE, ("uuid", "clock"),
        "Clock: graphics, sm, memory or video.",
    ),
    Metric(
        "gpuadmin_gpu_throttled", GAUGE, ("uuid", "reason"),
        "1 while the GPU is slowed down for that reason: power_cap, hardware, heat, heat_hardware or "
        "power_brake.",
    ),
    Metric(
        "gpuadmin_gpu_ecc_errors_total", COUNTER, ("uuid", "type"),
        "Memory errors since the driver was loaded: corrected or uncorrected.",
    ),
    Metric(
        "gpuadmin_gpu_remapped_rows", GAUGE, ("uuid", "type"),
        "Rows of memory that were replaced (corrected, uncorrected); pending and failed are 1 or 0.",
    ),
    Metric(
        "gpuadmin_gpu_pcie_lanes", GAUGE, ("uuid",),
        "PCIe lanes in use.",
    ),
    Metric(
        "gpuadmin_gpu_pcie_lanes_max", GAUGE, ("uuid",),
        "PCIe lanes that GPU and slot have at most.",
    ),
    Metric(
        "gpuadmin_mig_info", GAUGE, ("uuid", "gpu", "index", "name"),
        "A MIG device; gpu is the uuid of its GPU. Always 1.",
    ),
    Metric(
        "gpuadmin_mig_utilization_ratio", GAUGE, ("uuid",),
        "Share of time since the last sample in which something computed on the MIG device, by NVML's GPM. Absent "
        "where the GPU has none, and where two devices share a GPU instance.",
    ),
    Metric(
        "gpuadmin_mig_memory_size_bytes", GAUGE, ("uuid",),
        "Memory that the MIG device has.",
    ),
    Metric(
        "gpuadmin_mig_memory_used_bytes", GAUGE, ("uuid",),
        "Memory of the MIG device in use.",
    ),
    # errors, holders and people, by the mapper
    Metric(
        "gpuadmin_gpu_xid_errors_total", COUNTER, ("address", "xid"),
        "Errors that the driver noted in the kernel's log; address as in gpuadmin_gpu_info.",
    ),
    Metric(
        "gpuadmin_gpu_allocated", GAUGE, ("uuid", "user", "container"),
        "1 where somebody holds the GPU or MIG device (uuid): by a process that the driver lists, or, where it lists "
        "none because it does not answer, by one that has it open. The container is its name, or the beginning of its "
        "id where its daemon does not say; empty outside of containers.",
    ),
    Metric(
        "gpuadmin_gpu_allocated_since_timestamp_seconds", GAUGE, ("uuid", "user", "container"),
        "When the first of the processes that hold it started.",
    ),
    Metric(
        "gpuadmin_gpu_processes", GAUGE, ("uuid", "user", "container"),
        "Processes that hold it, as the driver lists them.",
    ),
    Metric(
        "gpuadmin_gpu_process_memory_bytes", GAUGE, ("uuid", "user", "container"),
        "GPU memory of these processes; absent where the driver does not say.",
    ),
    Metric(
        "gpuadmin_gpu_held_seconds_total", COUNTER, ("uuid", "user"),
        "Time in which somebody held it.",
    ),
    Metric(
        "gpuadmin_gpu_measured_seconds_total", COUNTER, ("uuid", "user"),
        "Time of that in which it is known whether it was used; less than held where the driver did not say, "
        "and for MIG devices.",
    ),
    Metric(
        "gpuadmin_gpu_active_seconds_total", COUNTER, ("uuid", "user"),
        "Time of that in which it was used. Two people on one GPU: it counts for each who has a process "
        "there.",
    ),
    Metric(
        "gpuadmin_gpu_unused_since_timestamp_seconds", GAUGE, ("uuid", "user"),
        "Since when somebody has held it without using it once, and each look of that time knows it; absent where it "
        "is used, was let go, or nobody knows.",
    ),
    Metric(
        "gpuadmin_gpu_granted_until_timestamp_seconds", GAUGE, ("uuid", "user", "who", "reason"),
        "Until when the GPU, with its MIG devices, is granted to somebody, by whom (who) and why. Absent where GPUs "
        "are open to everybody, and for a grant of a single MIG device.",
    ),
    Metric(
        "gpuadmin_gpu_job_unused_since_timestamp_seconds", GAUGE, ("uuid", "user", "slurm_job"),
        "Since when a job of Slurm's has had it and its person has not used it, whether they hold it or not, and each "
        "look of that time knows it; absent where it is used, or nobody knows.",
    ),
    Metric(
        "gpuadmin_gpu_ungranted_since_timestamp_seconds", GAUGE, ("uuid", "user"),
        "Since when somebody has had it open without a grant: it was open when theirs ended. That the driver lists "
        "nothing of theirs does not matter. Absent where GPUs are open to everybody.",
    ),
    Metric(
        "gpuadmin_user_cpu_seconds_total", COUNTER, ("user",),
        "Processor time of all that somebody runs; begins again with their next login.",
    ),
    Metric(
        "gpuadmin_user_memory_bytes", GAUGE, ("user",),
        "Memory of all that somebody runs, the cache of their files included.",
    ),
    Metric(
        "gpuadmin_user_oom_kills_total", COUNTER, ("user",),
        "Processes that the kernel ended because memory ran out.",
    ),
    Metric(
        "gpuadmin_user_tasks", GAUGE, ("user",),
        "Processes and threads.",
    ),
    Metric(
        "gpuadmin_user_io_read_bytes_total", COUNTER, ("user",),
        "Bytes read from this node's disks.",
    ),
    Metric(
        "gpuadmin_user_io_written_bytes_total", COUNTER, ("user",),
        "Bytes written to this node's disks.",
    ),
    # disks, once a day
    Metric(
        "gpuadmin_user_disk_bytes", GAUGE, ("user", "place"),
        "What somebody's files take on this host's disks. What shares blocks (reflinks, snapshots) counts for each.",
    ),
    Metric(
        "gpuadmin_user_disk_inodes", GAUGE, ("user", "place"),
        "Files and directories of that.",
    ),
    Metric(
        "gpuadmin_user_disk_timestamp_seconds", GAUGE, ("user", "place"),
        "When that was so: of several directories, of the one that was measured longest ago.",
    ),
    Metric(
        "gpuadmin_user_disk_partial", GAUGE, ("user", "place"),
        "1 where it is more than was counted, because a directory holds too much or was moved about meanwhile.",
    ),
    # disks, every minute by gpuadmin-disk-room
    Metric(
        "gpuadmin_people_disk_bytes", GAUGE, ("mountpoint",),
        "What all people together can fill of a directory's file system, where `limits.disk_reserve` keeps the rest.",
    ),
    Metric(
        "gpuadmin_people_disk_free_bytes", GAUGE, ("mountpoint",),
        "What is left of it. At 0 people can write nothing there; root can.",
    ),
    # the queue, every minute by gpuadmin-metrics-queue on the host of the group slurm
    Metric(
        "gpuadmin_queue_up", GAUGE, (),
        "1 if Slurm's controller answers; where it is 0 nothing else is known of the queue.",
    ),
    Metric(
        "gpuadmin_queue_accounting_up", GAUGE, (),
        "1 if Slurm's accounting (slurmdbd) and its database answer.",
    ),
    Metric(
        "gpuadmin_queue_allocated_gpus", GAUGE, ("user", "account", "project"),
        "GPUs that the queue has given to somebody, of the jobs that run now; project is empty where none was named.",
    ),
    Metric(
        "gpuadmin_queue_place", GAUGE, ("id", "user", "account", "gpus", "why"),
        "A job's place in the queue, from 1, how many GPUs it asks for, and why it waits. Of the first 2000 jobs.",
    ),
    Metric(
        "gpuadmin_queue_waiting_since_timestamp_seconds", GAUGE, ("id", "user"),
        "Since when a job waits.",
    ),
    Metric(
        "gpuadmin_queue_expected_start_timestamp_seconds", GAUGE, ("id", "user"),
        "Before when Slurm does not expect a job that waits to begin, by the time that jobs have asked for.",
    ),
    Metric(
        "gpuadmin_queue_ended_timestamp_seconds", GAUGE, ("id", "user", "why"),
        "When a job with GPUs has ended, and why, of the last day: done, time, idle, memory, failed, cancelled, own "
        "(by its person) or node.",
    ),
    Metric(
        "gpuadmin_queue_until_timestamp_seconds", GAUGE, ("id", "user", "account", "gpus", "nodes", "notebook"),
        "Until when a job that runs has its GPUs; `notebook` is yes for one of `gpu jupyter`.",
    ),
    Metric(
        "gpuadmin_queue_exception", GAUGE, ("id", "who", "reason"),
        "1 for a job that an admin has made in somebody's name, with who made it and why; empty where that is unknown.",
    ),
    Metric(
        "gpuadmin_queue_node_closed", GAUGE, ("node", "state", "reason"),
        "1 for a node that takes no jobs (drained, down), and why.",
    ),
    # the image, by the mapper
    Metric(
        "gpuadmin_image_info", GAUGE, ("image",),
        "The image that the running root was made from; absent on a node without images. Always 1.",
    ),
    Metric(
        "gpuadmin_image_root_writable", GAUGE, (),
        "1 where the running root, which is read-only, can be written to.",
    ),
    Metric(
        "gpuadmin_image_pending_since_timestamp_seconds", GAUGE, ("image", "trial"),
        "When the switch was made that is not confirmed yet; absent where none is. The label trial is true while the "
        "node runs the new root.",
    ),
    # the collector itself
    Metric(
        "gpuadmin_collector_success", GAUGE, ("source",),
        "1 if the source answered; where it is 0 its series are absent.",
    ),
    Metric(
        "gpuadmin_collector_sample_timestamp_seconds", GAUGE, ("source",),
        "When the source was last asked with success.",
    ),
    Metric(
        "gpuadmin_collector_duration_seconds", GAUGE, ("source",),
        "How long that took.",
    ),
    Metric(
        "gpuadmin_collector_incomplete", GAUGE, ("user",),
        "1 for somebody who has more processes or open files than it looks at, or whose Docker daemon does "
        "not answer: what they hold is then known by the driver alone, and containers by the beginning of "
        "their ids.",
    ),
)  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}
