"""Gradients on the wire: what carries them, the switch that helps, and its simulator."""
