"""What the kernel counts, from files drawn by hand and from this very process."""

import os
import platform
import threading
import time
from pathlib import Path

import pytest

from paceline.machine import (
    Clocks,
    Moved,
    clocks_after,
    clocks_now,
    moved,
    quota_here,
    stolen_here,
    this_machine,
    thread_clock,
)
from paceline.machine.boot import boot_here
from paceline.machine.busy import busy_ns
from paceline.machine.cores import kinds, processor, raw_speeds
from paceline.machine.quota import Quota, quota_in, throttled_ns
from paceline.machine.stolen import stolen_ns
from paceline.machine.strain import Strain, StrainReader
from paceline.machine.threads import ThreadTime, parsed, thread_names

MS = 1_000_000


def drawn(folder: Path, **files: str) -> Path:
    """A folder of small files; `__` in a name is a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_schedstat_file_tells_run_time_delay_and_turns() -> None:
    assert parsed(b"1014209078 136481 28\n") == ThreadTime(1_014_209_078, 136_481, 28)


@pytest.mark.parametrize("text", [b"", b"0 0 0\n", b"1 2\n", b"a b c\n"])
def test_a_kernel_that_does_not_count_gives_no_thread_time(text: bytes) -> None:
    assert parsed(text) is None


def test_a_machine_without_schedstat_has_no_clock_for_its_threads(tmp_path: Path) -> None:
    assert thread_clock(1, drawn(tmp_path / "1").parent) is None
    drawn(tmp_path / "2", schedstat="0 0 0\n")
    assert thread_clock(2, tmp_path) is None


def test_a_thread_that_computes_runs_or_waits_for_a_core_all_the_time() -> None:
    clock = thread_clock(threading.get_native_id())
    if clock is None:
        pytest.skip("this kernel keeps no schedstat")
    begin, before = time.monotonic_ns(), clock.read()
    while time.monotonic_ns() < begin + 50 * MS:
        pass
    wall, after = time.monotonic_ns() - begin, clock.read()
    clock.close()
    assert before is not None
    assert after is not None
    got = after.since(before)
    stolen = stolen_here()
    assert got.run_ns > 0
    assert got.run_ns + got.delay_ns <= 1.05 * wall
    assert stolen is None or stolen >= 0


def test_a_thread_that_has_ended_tells_nothing_more() -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(thread_clock(threading.get_native_id())))
    thread.start()
    thread.join()
    if found[0] is None:
        pytest.skip("this kernel keeps no schedstat")
    while str(thread.native_id) in os.listdir("/proc/self/task"):
        pass
    assert found[0].read() is None  # type: ignore[attr-defined]


def test_this_process_has_a_main_thread_with_a_name() -> None:
    assert thread_names()[os.getpid()]


def test_stolen_time_is_the_eighth_number_of_all_cores_together() -> None:
    text = "cpu  37050 0 3798 94144 469 0 58 38 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
    assert stolen_ns(text, 100) == 380 * MS


def test_what_all_programs_ran_is_neither_idle_nor_waiting_nor_stolen_time() -> None:
    text = "cpu  10 20 30 1000 500 4 5 99 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
    assert busy_ns(text, 100) == 690 * MS
    assert busy_ns("cpu 1 2 3\n", 100) is None


def test_a_machine_is_told_by_its_kernel_s_mark(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("5f0c\n")
    assert boot_here(tmp_path / "boot_id") == "5f0c"
    assert boot_here(tmp_path / "nothing") == ""


def test_a_machine_without_a_steal_column_says_nothing_of_it(tmp_path: Path) -> None:
    assert stolen_ns("cpu 1 2 3\n", 100) is None
    assert stolen_here(tmp_path / "stat") is None


def test_a_throttled_container_of_either_version_is_read(tmp_path: Path) -> None:
    newer = drawn(
        tmp_path / "two", cpu__max="150000 100000\n", cpu__stat="usage_usec 9\nthrottled_usec 70\n"
    )
    older = drawn(
        tmp_path / "one",
        cpu__cfs_quota_us="50000\n",
        cpu__cfs_period_us="100000\n",
        cpu__stat="nr_periods 3\nnr_throttled 1\nthrottled_time 70000\n",
    )
    assert quota_in(newer) == Quota(1.5, 70_000)
    assert quota_in(older) == Quota(0.5, 70_000)


def test_a_group_without_a_limit_allows_all_cores_and_throttles_nothing(tmp_path: Path) -> None:
    free = drawn(tmp_path / "free", cpu__max="max 100000\n", cpu__stat="usage_usec 9\n")
    assert quota_in(free) == Quota(None, 0)
    assert throttled_ns("usage_usec 1\n") == 0
    assert quota_in(tmp_path) is None


def test_the_tightest_group_around_the_process_limits_it(tmp_path: Path) -> None:
    drawn(tmp_path / "pod", cpu__max="100000 100000\n", cpu__stat="throttled_usec 5\n")
    drawn(tmp_path / "pod" / "job", cpu__max="max 100000\n", cpu__stat="throttled_usec 0\n")
    member = drawn(tmp_path / "proc", cgroup="0::/pod/job\n") / "cgroup"
    assert quota_here(tmp_path, member) == Quota(1.0, 5_000)
    assert quota_here(tmp_path / "nowhere", member) is None
    assert quota_here(tmp_path, tmp_path / "absent") is None


def test_a_process_of_the_older_groups_is_found_below_its_controller(tmp_path: Path) -> None:
    drawn(
        tmp_path / "cpu" / "pod",
        cpu__cfs_quota_us="20000\n",
        cpu__cfs_period_us="10000\n",
        cpu__stat="throttled_time 7\n",
    )
    member = drawn(tmp_path / "proc", cgroup="3:cpuset:/x\n1:cpu:/pod\n0::/\n") / "cgroup"
    assert quota_here(tmp_path, member) == Quota(2.0, 7)


def test_files_of_strain_are_read_again_and_again(tmp_path: Path) -> None:
    drawn(tmp_path / "free", cpu__max="max 100000\n", cpu__stat="throttled_usec 99\n")
    drawn(tmp_path / "free" / "job", cpu__max="100000 100000\n", cpu__stat="throttled_usec 5\n")
    member = drawn(tmp_path / "proc", cgroup="0::/free/job\n", stat="cpu 1 2 3 4 5 6 7 3 9\n")
    reader = StrainReader(member / "stat", tmp_path, member / "cgroup")
    assert reader.read() == Strain(stolen_ns=30 * MS, throttled_ns=5_000, busy_ns=190 * MS)
    drawn(tmp_path / "free" / "job", cpu__stat="throttled_usec 7\n")
    drawn(member, stat="cpu 1 2 3 4 5 6 7 4 9\ncpu0 1\n")
    assert reader.read() == Strain(40 * MS, 7_000, 190 * MS)
    reader.close()


def test_a_machine_that_tells_nothing_was_never_strained(tmp_path: Path) -> None:
    reader = StrainReader(tmp_path / "stat", tmp_path, tmp_path / "cgroup")
    assert reader.read() == Strain(0, 0, 0)
    reader.close()


def test_a_clock_that_is_set_back_is_a_jump_and_a_suspend_is_sleep() -> None:
    before = Clocks(1_000 * MS, 0, 0)
    assert moved(before, Clocks(1_400 * MS, 500 * MS, 500 * MS)) == Moved(-100 * MS, 0)
    assert moved(before, Clocks(4_500 * MS, 500 * MS, 3_500 * MS)) == Moved(0, 3_000 * MS)


def test_a_thread_that_lost_its_core_among_the_clocks_reads_them_again() -> None:
    late, whole = Clocks(0, 4 * MS, 4 * MS), Clocks(5 * MS, 5 * MS, 5 * MS)
    tries = iter([(late, 4 * MS), (late, 3 * MS), (whole, 900)])
    assert clocks_now(lambda: next(tries)) == whole
    assert clocks_now(lambda: (late, 4 * MS)) == late  # it never kept its core


def test_two_clocks_tell_whether_the_third_moved_apart() -> None:
    now = clocks_now()
    assert moved(now, clocks_after(now)).steady
    set_forward = now._replace(wall_ns=now.wall_ns - 5000 * MS)
    told = moved(set_forward, clocks_after(set_forward))
    assert told.jumped_ns == pytest.approx(5000 * MS, abs=1000 * MS)
    slept = now._replace(wall_ns=now.wall_ns - 5000 * MS, elapsed_ns=now.elapsed_ns - 5000 * MS)
    told = moved(slept, clocks_after(slept))
    assert told.slept_ns == pytest.approx(5000 * MS, abs=1000 * MS)
    assert told.jumped_ns == 0


def test_a_clock_that_a_time_server_bends_has_not_jumped() -> None:
    bent = Clocks(10_000 * MS + 5 * MS, 10_000 * MS, 10_000 * MS)
    assert moved(Clocks(0, 0, 0), bent).steady


def test_cores_of_two_speeds_are_told_from_cores_that_boost_a_little(tmp_path: Path) -> None:
    for core, speed in enumerate((5_200_000, 5_000_000, 3_800_000, 3_800_000)):
        drawn(tmp_path / f"cpu{core}" / "cpufreq", cpuinfo_max_freq=f"{speed}\n")
    assert kinds(raw_speeds(tmp_path)) == (1.0, 3.8 / 5.2)
    assert kinds((1024, 1024)) == (1.0,)
    assert kinds(raw_speeds(tmp_path / "nowhere")) == ()


def test_a_processor_is_called_what_its_maker_calls_it(tmp_path: Path) -> None:
    drawn(tmp_path, cpuinfo="processor\t: 0\nmodel name\t: EPYC 7763\nmodel name\t: other\n")
    assert processor(tmp_path / "cpuinfo") == "EPYC 7763"
    assert processor(tmp_path / "nowhere") == platform.machine()


def test_processors_of_one_architecture_whose_makers_name_them_by_numbers_are_told_apart(
    tmp_path: Path,
) -> None:
    drawn(tmp_path, cpuinfo="CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n")
    assert processor(tmp_path / "cpuinfo") == f"{platform.machine()} 0x41 0xd0c"


def test_this_machine_is_named_by_its_processors_model() -> None:
    assert this_machine() == f"{processor()}, {os.cpu_count()} cores"
