"""Command line as `python -m slackwater`, if the command `slackwater` is not on the path."""

from slackwater.cli.entry import run

run()
