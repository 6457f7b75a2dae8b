"""What notebook 16 needs beside the library: measurements, figures, exercises."""
