"""The command line, without Spark:
`slackwater history|detail|files|schema|vacuum|restore|clone|convert|generate|log|lake|serve`.
"""
