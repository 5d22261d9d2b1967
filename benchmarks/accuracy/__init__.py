"""How near predictions come to what was measured."""
