"""The engine as WebAssembly, through the package wasmtime, for machines without a native core."""

from paceline.wasm.core import Core

__all__ = ["Core"]
