"""Tensors of a script of which each rank keeps a part.

`torch_cuttable` says whose tensors may be cut; `torch_parts` makes parts of them, and whole ones
again; `torch_passes` tells passes that one rank makes alone; `torch_lone` is what it then asks of
the others.
"""
