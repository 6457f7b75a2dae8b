"""What notebook 10 needs beside the library: measurements, figures, exercises."""
