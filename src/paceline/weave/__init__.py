"""Programs of computation and communication, scheduled, checked and run."""
