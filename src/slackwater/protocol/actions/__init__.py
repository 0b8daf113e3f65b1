"""Actions of the log and the values in them: files, paths, deletion vectors, partition values, times."""
