"""The command line: `slackwater history|detail|files|schema PATH`, without Spark."""
