"""The command line `slackwater`, without Spark."""
