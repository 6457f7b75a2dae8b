"""What notebook 07 needs beside the library: measurements, figures, exercises."""
