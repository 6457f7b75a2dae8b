"""What notebook 00 needs beside the library: measurements, figures, exercises."""
