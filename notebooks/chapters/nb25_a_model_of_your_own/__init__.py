"""What notebook 25 needs: any model with texts for it, and one page of figures."""
