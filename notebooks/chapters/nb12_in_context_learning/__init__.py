"""What notebook 12 needs beside the library: measurements, figures, exercises."""
