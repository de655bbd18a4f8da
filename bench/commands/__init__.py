"""What sdi-bench measures, one command a file."""
