"""What notebook 15 needs beside the library: measurements, figures, exercises."""
