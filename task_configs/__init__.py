"""YAML tasks, their prompts and the bundled items."""
