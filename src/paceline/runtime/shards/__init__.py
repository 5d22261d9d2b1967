"""A live job under DDP trained under FSDP2.

`torch_blocks` says which modules are wrapped; `torch_wrapped` wraps and unwraps them; `torch_parts`
makes parts of the script's tensors, and whole ones again; `torch_calls` are the collectives;
`torch_lone` is what one rank asks of the others alone; `torch_sharding` puts all together.
"""
