"""Pairs of linear layers of a live DDP job that workers side by side share.

`torch_chains` proves that one layer feeds another through elementwise work alone; `torch_found`
chooses the pairs; `torch_rows` puts a group's rows together and hands sums back; `torch_layers` are
the layers' passes; `torch_gradients` reduces the parts' gradients; `torch_paired` puts all
together.
"""
