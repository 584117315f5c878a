"""The report: what a folder of results says, as one page that needs nothing else."""
