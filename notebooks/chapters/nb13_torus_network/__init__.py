"""What notebook 13 needs beside the library: measurements, figures, exercises."""
