"""What notebook 08 needs beside the library: measurements, figures, exercises."""
