"""The command line that shows what an exported chat becomes."""
