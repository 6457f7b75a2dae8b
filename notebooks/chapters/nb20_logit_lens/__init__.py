"""What notebook 20 needs beside the library: measurements, figures, exercises."""
