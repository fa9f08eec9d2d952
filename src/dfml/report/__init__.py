"""What a run or a bench has found, as one page that needs nothing but a browser."""
