"""What notebook 11 needs beside the library: measurements, figures, exercises."""
