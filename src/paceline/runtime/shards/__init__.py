"""A live job under DDP trained under FSDP2.

`torch_blocks` says which modules are wrapped; `torch_wrapped` wraps and unwraps them; `torch_calls`
are the collectives; `torch_sharding` puts all together, with what it shares with others that cut
weights (`parts/`).
"""
