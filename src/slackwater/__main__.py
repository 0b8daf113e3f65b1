"""`python -m slackwater`: the command line, where the command `slackwater` is not on the path."""

from slackwater.cli.entry import run

run()
