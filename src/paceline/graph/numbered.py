"""Which block of a model a layer lies in: what its path numbers first."""


def numbered_block(layer: str) -> str:
    """`layers.3` of `layers.3.norm`; empty where nothing is numbered."""
    parts = layer.split(".")
    number = next((at for at, part in enumerate(parts) if part.isdigit()), None)
    return "" if number is None else ".".join(parts[: number + 1])
