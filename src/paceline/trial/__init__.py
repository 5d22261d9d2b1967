"""A plan tried in the live job: blocks with and without it take turns, and a test decides."""
