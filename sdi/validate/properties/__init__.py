"""What `validate` asks of a sketch class, one property a file."""
