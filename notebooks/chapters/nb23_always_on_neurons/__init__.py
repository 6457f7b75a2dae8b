"""What notebook 23 needs beside the library: measurements, figures, exercises."""
