"""Whether a job hangs, as its folder tells."""

from pathlib import Path

from paceline.trial.running import grows


def test_a_file_that_is_gone_once_it_is_looked_at_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "rank-0.part").symlink_to(tmp_path / "renamed")
    assert not grows(tmp_path, 60.0)()


def test_a_job_that_writes_nothing_more_hangs_once_its_patience_is_over(tmp_path: Path) -> None:
    hangs = grows(tmp_path, 0.0)
    (tmp_path / "rank-0").write_text("a step")
    assert not hangs()
    assert hangs()
    (tmp_path / "rank-0").write_text("a step, and one more")
    assert not hangs()
