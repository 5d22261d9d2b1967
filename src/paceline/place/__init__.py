"""Which op on which device, which stages, which hardware: each with a proven gap.

`operators` places an operator graph on accelerators and CPUs. `pipeline` cuts a model into stages
and plans their schedule. `hardware` searches accelerator templates and the plan of a model on them.
"""
