"""Programs that ship: one idea a file."""
