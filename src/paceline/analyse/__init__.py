"""What a recording tells beyond its step: one analysis a file, each from a graph to a value."""
