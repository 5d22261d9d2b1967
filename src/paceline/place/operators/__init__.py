"""Placement of an operator graph on accelerators and CPUs."""
