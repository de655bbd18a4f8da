"""What is measured: cases, contenders, and where their time goes."""
