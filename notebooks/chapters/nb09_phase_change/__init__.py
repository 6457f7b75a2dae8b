"""What notebook 09 needs beside the library: measurements, figures, exercises."""
