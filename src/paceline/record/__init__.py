"""What happened on every rank: recorder, readers, clocks, and `build`, which joins them."""
