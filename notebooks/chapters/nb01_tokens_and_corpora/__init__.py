"""What notebook 01 needs beside the library: measurements, figures, exercises."""
