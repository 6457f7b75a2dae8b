"""What a reading group measures together: six experiments of eight settings each."""
