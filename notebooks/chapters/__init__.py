"""What each notebook needs beside the library, one folder a notebook."""
