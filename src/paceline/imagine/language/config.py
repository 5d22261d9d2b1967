"""`Language`: the dimensions of a Hugging Face language model, from its `config.json`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paceline.errors import GraphError


@dataclass(frozen=True)
class Activation:
    """An activation as eager PyTorch runs it: tensors that each of its kernels reads."""

    reads: tuple[int, ...]


_ACTIVATIONS: Final[Mapping[str, Activation]] = {
    "gelu": Activation((1,)),
    "relu": Activation((1,)),
    "gelu_new": Activation((1, 1, 1, 2, 1, 1, 1, 2)),  # x/2, x^3, scale, x+, scale, tanh, 1+, times
}


@dataclass(frozen=True)
class Language:
    """`passes` are the kernels over the attention scores between the products, before softmax.

    `decoder` is a second stack with cross attention (T5). `head` says that a forward pass ends in
    logits over the vocabulary; training does so always.
    """

    layers: int
    hidden: int
    heads: int
    head_dim: int
    ffn: int
    vocab: int
    activation: Activation
    passes: tuple[int, ...]
    experts: int = 1
    expert_every: int = 0  # each how many-th layer has experts; 0 is none
    capacity: int = 0  # tokens of one sequence that an expert takes at most; 0: all that come
    decoder: int = 0
    head: bool = True
    joined_qkv: bool = False
    norms: int = 2
    root_norm: bool = False  # T5's, five kernels in eager mode
    bias: bool = True

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim


def language(config: Mapping[str, Any]) -> Language:
    """The model that a configuration describes."""
    kind = str(config.get("model_type"))
    if kind not in _READERS:
        raise GraphError(
            f"model_type {kind!r} cannot be described; known are {', '.join(_READERS)}. "
            "Imagine its training script instead: paceline imagine -- SCRIPT"
        )
    try:
        return _READERS[kind](config)
    except KeyError as missing:
        raise GraphError(f"the configuration of a {kind} model lacks {missing}") from missing


def _bert(c: Mapping[str, Any]) -> Language:
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    return Language(
        c["num_hidden_layers"], hidden, heads, hidden // heads, c["intermediate_size"],
        c["vocab_size"], _activation(c["hidden_act"]), passes=(1, 1), head=False,
    )  # fmt: skip


def _gpt2(c: Mapping[str, Any]) -> Language:
    hidden, heads = c["n_embd"], c["n_head"]
    return Language(
        c["n_layer"], hidden, heads, hidden // heads, c.get("n_inner") or 4 * hidden,
        c["vocab_size"], _activation(c["activation_function"]), passes=(1, 1), joined_qkv=True,
    )  # fmt: skip


def _opt(c: Mapping[str, Any]) -> Language:
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    return Language(
        c["num_hidden_layers"], hidden, heads, hidden // heads, c["ffn_dim"], c["vocab_size"],
        _activation(c["activation_function"]), passes=(1, 1), head=False,
    )  # fmt: skip


def _switch(c: Mapping[str, Any]) -> Language:
    return Language(
        c["num_layers"], c["d_model"], c["num_heads"], c["d_kv"], c["d_ff"], c["vocab_size"],
        _activation(c["dense_act_fn"]), passes=(2,), experts=c["num_experts"],
        expert_every=c["encoder_sparse_step"], capacity=c.get("expert_capacity", 0),
        decoder=c["num_decoder_layers"], root_norm=True, bias=False,
    )  # fmt: skip


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Language]]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "opt": _opt,
    "switch_transformers": _switch,
}


def _activation(name: str) -> Activation:
    if name not in _ACTIVATIONS:
        raise GraphError(f"activation {name!r} is not known; known: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]
