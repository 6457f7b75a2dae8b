"""What notebook 14 needs beside the library: measurements, figures, exercises."""
