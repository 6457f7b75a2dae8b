"""What notebook 06 needs beside the library: measurements, figures, exercises."""
