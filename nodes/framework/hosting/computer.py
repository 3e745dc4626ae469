"""Settings of this computer that affect the accuracy of timing, read from /proc and /sys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")


class Setting(NamedTuple):
    """One setting of the computer: its name, its present value, and what to change ("" if the value is good)."""

    subject: str
    found: str
    advice: str = ""


def settings(root: Path = Path("/"), kernel: str = "", cores: int = 1) -> Iterator[Setting]:
    """Yield all settings of this computer that affect the accuracy of timing.

    root    folder that contains the folders proc and sys; another one in tests
    kernel  version of the kernel, as `uname -v` prints it
    cores   number of cores that this process may use
    """
    yield from _governor(root)
    yield _isolated(root, cores)
    yield _preemption(root, kernel)
    yield from _clock_source(root)
    yield from _throttling(root)
    yield from _quota(root)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _governor(root: Path) -> Iterator[Setting]:
    files = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    names = sorted({name for file in files if (name := _read(file)) is not None})
    if not names:
        yield Setting("cpu governor", "not shown: the firmware or the host of this virtual machine sets the frequency")
    elif names == ["performance"]:
        yield Setting("cpu governor", "performance")
    else:
        yield Setting("cpu governor", ", ".join(names), "cpupower frequency-set -g performance steadies the step time")


def _isolated(root: Path, cores: int) -> Setting:
    isolated = _read(root / "sys/devices/system/cpu/isolated")
    if isolated:
        return Setting("isolated cores", f"{isolated}; the simulation server uses one with cpu = N in [sim]")
    if cores < 2:
        return Setting("isolated cores", "none")
    last = cores - 1
    advice = (
        f"reserve core {last}: isolcpus={last} nohz_full={last} on the kernel's command line, cpu = {last} in [sim]"
    )
    return Setting("isolated cores", "none", advice)


def _preemption(root: Path, kernel: str) -> Setting:
    if _read(root / "sys/kernel/realtime") == "1" or "PREEMPT_RT" in kernel:
        return Setting("kernel", "PREEMPT_RT")
    kind = next((word for word in ("PREEMPT_DYNAMIC", "PREEMPT") if word in kernel.split()), "without preemption")
    return Setting("kernel", kind, "a kernel with PREEMPT_RT (Debian: linux-image-rt-amd64) shortens the worst cases")


def _clock_source(root: Path) -> Iterator[Setting]:
    source = _read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source is not None:
        slow = "; each reading takes microseconds: use clocksource=tsc where the processor's counter is steady"
        yield Setting("clock source", source, slow.removeprefix("; ") if source in SLOW_CLOCKS else "")


def _throttling(root: Path) -> Iterator[Setting]:
    runtime, period = (_read(root / f"proc/sys/kernel/sched_rt_{name}_us") for name in ("runtime", "period"))
    if runtime is not None and period is not None:
        share = "all" if runtime == "-1" else f"{100 * int(runtime) / int(period):.0f} %"
        yield Setting("real-time share", f"threads with SCHED_FIFO may use {share} of a core")


def _quota(root: Path) -> Iterator[Setting]:
    limit = (_read(root / "sys/fs/cgroup/cpu.max") or "max").split()
    if len(limit) != 2 or limit[0] == "max":
        return
    cores = int(limit[0]) / int(limit[1])
    counts = dict(line.split() for line in (_read(root / "sys/fs/cgroup/cpu.stat") or "").splitlines())
    stopped = int(counts.get("nr_throttled", 0))
    advice = f"a process that has used it up waits for the next {int(limit[1]) / 1e3:g} ms; raise or remove the quota"
    yield Setting("cpu quota", f"{cores:g} cores, used up {stopped} times", advice if stopped else "")
