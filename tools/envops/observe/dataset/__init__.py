"""Looking at datasets: local files and folders, and those of the Hub."""
