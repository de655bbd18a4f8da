"""Where the paper is not right as printed, decided by computing."""
