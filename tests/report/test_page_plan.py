"""The page of a plan without a run: every part with its reason, and what the plan does not say."""

from paceline.report.page.contents import Of
from paceline.report.page.plan import plan_alone
from paceline.strategies import MadeFor, Plan, Predicted, strategy

BUCKETS = strategy("buckets", size_bytes=1 << 20)
BF16 = strategy("bf16")


def test_each_strategy_stands_with_what_it_is_and_with_its_own_reason() -> None:
    page = plan_alone(Plan((BUCKETS, BF16), reasons=(f"{BF16}: halves it", "as for the rest")))
    assert page.of is Of.PLAN
    assert [(part.strategy, part.why) for part in page.parts] == [
        (str(BUCKETS), ""),
        (str(BF16), "halves it"),
    ]
    assert all(part.does for part in page.parts)
    assert page.reasons == ("as for the rest",)


def test_a_gain_is_told_where_the_job_as_it_was_is_known() -> None:
    known = Predicted(2_000_000, 1_000_000, 3_000_000, 2e6, 4e6)
    told = plan_alone(Plan((BF16,), predicted=known)).headline
    assert told[0] == "1 strategy."
    assert told[-1] == "For a recorded batch it takes the job from 4.00 ms to 2.00 ms (-50.0 %)."
    unknown = Predicted(2_000_000, 1_000_000, 3_000_000, 2e6)
    assert not any("from" in line for line in plan_alone(Plan((BF16,), predicted=unknown)).headline)


def test_a_plan_that_says_nothing_tells_what_would_bring_it() -> None:
    page = plan_alone(Plan(()))
    assert page.step == ""
    assert page.headline == ("No strategy: the job stays as it is.",)
    assert (page.predicted, page.made_for) == ((), ())
    assert set(page.missing) == {"run", "predicted", "made_for"}


def test_what_a_plans_job_does_not_know_is_left_out() -> None:
    rows = dict(plan_alone(Plan((), MadeFor("abc", 1024, "0.1"))).made_for)
    assert rows == {
        "workers": "1,024",
        "fingerprint of the model": "abc",
        "fingerprint of the cluster": "none: links as recorded",
        "Paceline": "0.1",
    }
