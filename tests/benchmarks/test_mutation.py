"""The mutation benchmark tells faults that tests catch from faults that none sees."""

from pathlib import Path

import pytest
from benchmarks.mutants import Fault, faults
from benchmarks.mutation_copy import Copy, Judgement, Outcome, Reach

SOUND = """def larger(a: int | None, b: int) -> int | None:
    if a < b:
        return b
    return a
def unused() -> int:
    return 1 + 1
"""
TEST = "from paceline.sizes import larger\ndef test_larger():\n    assert larger(1, 3) == 3\n"
LARGER = "tests/test_sizes.py::test_larger"
UNUSED = "tests/test_more.py::test_unused"
REACH = Reach({LARGER: 0.1}, {"sizes.py": {"1": ["import"], "2": [LARGER], "3": [LARGER]}})


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A made-up project of the same shape: one file, one test."""
    made = Copy(tmp_path)
    made.package.mkdir(parents=True)
    (made.package / "__init__.py").touch()
    (made.package / "sizes.py").write_text(SOUND)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sizes.py").write_text(TEST)
    return made


def put(line: int, before: str, after: str) -> Fault:
    return Fault("sizes.py", line, f"{before} -> {after}", SOUND.replace(before, after))


def test_a_fault_that_a_test_sees_is_caught_by_its_name(copy: Copy) -> None:
    found = copy.judge(put(2, "a < b", "a > b"), REACH)
    assert found == Judgement(Outcome.CAUGHT, LARGER)


def test_a_fault_that_no_test_sees_survives(copy: Copy) -> None:
    assert copy.judge(put(2, "a < b", "a <= b"), REACH).outcome is Outcome.SURVIVED


def test_a_fault_on_a_line_that_no_test_reaches_survives(copy: Copy) -> None:
    assert copy.judge(put(6, "1 + 1", "1 - 1"), REACH).outcome is Outcome.UNREACHED


def test_a_fault_that_fails_at_import_is_caught_by_tests_of_that_file(copy: Copy) -> None:
    assert copy.judge(put(1, "a: int | None", "a: int - None"), REACH).outcome is Outcome.CAUGHT


def test_the_file_is_sound_again_after_each_fault(copy: Copy) -> None:
    copy.judge(put(2, "a < b", "a > b"), REACH)
    assert (copy.package / "sizes.py").read_text() == SOUND


def test_a_test_file_that_ran_anew_replaces_what_it_reached() -> None:
    fresh = Reach({"tests/test_more.py::test_unused": 0.2}, {"sizes.py": {"6": [UNUSED]}})
    both = REACH.joined(fresh)
    assert (both.of("sizes.py", 2, SOUND), both.of("sizes.py", 6, SOUND)) == ([LARGER], [UNUSED])
    left = both.without({"tests/test_sizes.py"})
    assert (left.of("sizes.py", 2, SOUND), left.of("sizes.py", 6, SOUND)) == ([], [UNUSED])


def test_a_file_of_constants_is_judged_by_every_test() -> None:
    assert REACH.of("constants.py", 1, "LARGEST = 3\n") == [LARGER]


@pytest.mark.needs("cosmic-ray")
def test_the_tests_that_reach_a_line_are_found_by_running_them(copy: Copy) -> None:
    reach = copy.reach(["tests"], "not slow")
    assert reach.of("sizes.py", 2, SOUND) == [LARGER]
    assert reach.of("sizes.py", 6, SOUND) == []


@pytest.mark.needs("cosmic-ray")
def test_every_line_gives_one_fault_and_annotations_none() -> None:
    made = list(faults({"sizes.py": SOUND}, seed=1))
    assert sorted(fault.line for fault in made) == [2, 6]
    assert all(fault.text != SOUND for fault in made)


@pytest.mark.needs("cosmic-ray")
def test_a_change_to_one_file_moves_no_fault_of_another() -> None:
    files = {"sizes.py": SOUND, "other.py": "x = 1 + 2\ny = 3 * x\n"}
    before = [fault for fault in faults(files, seed=1) if fault.file == "sizes.py"]
    after = faults({**files, "other.py": "y = 5\n"}, seed=1)
    assert [fault for fault in after if fault.file == "sizes.py"] == before
