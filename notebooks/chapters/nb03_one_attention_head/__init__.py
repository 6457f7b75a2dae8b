"""What notebook 03 needs beside the library: measurements, figures, exercises."""
