"""The project's own programs. Each is started by the executable file of the same name."""
