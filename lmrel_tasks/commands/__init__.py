"""One module per command of ``lmrel``: ``configure(parser)`` and ``run(args)``."""
