"""What notebook 24 needs beside the library: measurements, figures, exercises."""
