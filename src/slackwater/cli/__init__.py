"""The command line, without Spark: `slackwater history|detail|files|schema|log|lake|serve`."""
