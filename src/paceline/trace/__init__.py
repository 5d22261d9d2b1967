"""Files of a recording, or of other profilers, and the graph that `build` makes of them."""
