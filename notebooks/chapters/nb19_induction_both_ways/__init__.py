"""What notebook 19 needs beside the library: measurements, figures, exercises."""
