"""What notebook 04 needs beside the library: measurements, figures, exercises."""
