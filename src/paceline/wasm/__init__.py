"""The engine as WebAssembly: the module itself, and its face for Python where no compiler is."""
