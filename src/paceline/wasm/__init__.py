"""The engine as WebAssembly, through the package wasmtime, for machines without a native core."""

from paceline.wasm.engine import Core

__all__ = ["Core"]
