"""Which processors instances get, and where profiles are kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.errors import PacelineError
from paceline.serve import (
    Fingerprint,
    InstanceShare,
    Point,
    ServeError,
    ServingProfile,
    Topology,
    files,
)
from paceline.serve.topology import numbers, pinned, topology_here
from paceline.serve.tried import Tried


def system(folder: Path, siblings: dict[int, str], nodes: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        at = folder / f"cpu/cpu{cpu}/topology"
        at.mkdir(parents=True)
        (at / "thread_siblings_list").write_text(text + "\n")
    for node, text in nodes.items():
        at = folder / f"node/node{node}"
        at.mkdir(parents=True)
        (at / "cpulist").write_text(text + "\n")
    return folder


def test_physical_cores_come_first_and_nodes_stay_together(tmp_path: Path) -> None:
    """Four cores of two processors each; even ones lie on node 0."""
    siblings = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
    place = system(tmp_path, siblings, {0: "0,2,4,6", 1: "1,3,5,7"})
    found = topology_here(range(8), place)
    assert found == Topology((0, 2, 1, 3, 4, 6, 5, 7), physical=4, nodes=2)
    assert topology_here([4, 5], place) == Topology((4, 5), physical=2, nodes=2)


def test_a_system_that_says_nothing_has_one_node_of_whole_cores(tmp_path: Path) -> None:
    assert topology_here([3, 1], tmp_path) == Topology((1, 3), physical=2, nodes=1)


def test_no_processor_is_given_twice() -> None:
    place = Topology((0, 2, 1), physical=3, nodes=1)
    assert pinned(place, [2, 1]) == ((0, 2), (1,))
    with pytest.raises(ServeError, match="4 threads in all do not fit on the 3 processors"):
        pinned(place, [2, 2])


def test_lists_of_processors_are_read() -> None:
    assert numbers("0-2,5\n") == (0, 1, 2, 5)
    assert numbers("\n") == ()


MADE = ServingProfile(
    Fingerprint("m", "t", "c"),
    2,
    8,
    (Point(1, 1, 5.0, 4.0, 6.0, 3),),
    "today",
    (
        Tried((InstanceShare(2, 8),), 9.0, 7),
        Tried((InstanceShare(1, 4), InstanceShare(1, 4)), 8.0, 7),
    ),
    prepacked=False,
)


def test_a_profile_is_found_again_by_what_it_was_measured_of(tmp_path: Path) -> None:
    files.save(MADE, files.file_of(MADE.fingerprint, tmp_path))
    assert files.known(MADE.fingerprint, 2, 4, tmp_path) == MADE
    assert files.known(MADE.fingerprint, 2, 16, tmp_path) is None
    assert files.known(MADE.fingerprint, 4, 4, tmp_path) is None
    assert files.load(files.file_of(MADE.fingerprint, tmp_path)).tried[1].batch == 8
    assert files.known(replace(MADE.fingerprint, torch="other"), 2, 4, tmp_path) is None


def test_a_profile_of_several_cores_that_tried_no_division_is_measured_anew(tmp_path: Path) -> None:
    for cores, fits in ((2, False), (1, True)):
        kept = replace(MADE, cores=cores, tried=())
        files.save(kept, files.file_of(kept.fingerprint, tmp_path))
        assert (files.known(kept.fingerprint, cores, 4, tmp_path) is not None) == fits


def test_a_profile_of_a_version_that_prepacked_nothing_is_measured_anew(tmp_path: Path) -> None:
    for prepacked, fits in ((None, False), (False, True), (True, True)):
        kept = replace(MADE, prepacked=prepacked)
        files.save(kept, files.file_of(kept.fingerprint, tmp_path))
        assert (files.known(kept.fingerprint, 2, 4, tmp_path) is not None) == fits


def test_a_broken_profile_says_which_file_it_is(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    for text in ("", "{", "[]", '{"format": 9}', '{"format": 1}'):
        file.write_text(text)
        with pytest.raises(PacelineError, match=r"p\.json"):
            files.load(file)
