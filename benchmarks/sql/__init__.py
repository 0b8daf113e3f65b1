"""What SQL costs beside the same work by frames, and beside Spark without Slackwater."""
