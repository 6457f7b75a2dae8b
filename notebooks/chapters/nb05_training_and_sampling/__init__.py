"""What notebook 05 needs beside the library: measurements, figures, exercises."""
