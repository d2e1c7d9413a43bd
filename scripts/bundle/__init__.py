"""The single-file function: `build` writes it, `loader` is the part of it that runs inside Open WebUI."""
