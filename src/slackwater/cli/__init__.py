"""The command line, without Spark:
`slackwater history|detail|files|schema|vacuum|restore|clone|convert|generate|stream-state|log|lake|serve`.
"""
