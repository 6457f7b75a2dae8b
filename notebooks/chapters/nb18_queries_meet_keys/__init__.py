"""What notebook 18 needs beside the library: measurements, figures, exercises."""
