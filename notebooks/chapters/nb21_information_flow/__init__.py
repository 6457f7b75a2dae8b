"""What notebook 21 needs beside the library: measurements, figures, exercises."""
