"""Command line `slackwater`, without Spark."""
