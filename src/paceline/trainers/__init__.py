"""Callbacks for trainers that do what commands do: record, apply a plan, watch its steps.

`paceline.trainers.lightning` and `paceline.trainers.transformers` have `RecordCallback`,
`ApplyCallback` and `WatchCallback`; each needs its trainer's package alone.
"""
