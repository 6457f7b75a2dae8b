"""What notebook 22 needs beside the library: measurements, figures, exercises."""
