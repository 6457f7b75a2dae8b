"""What notebook 02 needs beside the library: measurements, figures, exercises."""
