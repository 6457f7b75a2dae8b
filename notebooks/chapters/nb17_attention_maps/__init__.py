"""What notebook 17 needs beside the library: measurements, figures, exercises."""
