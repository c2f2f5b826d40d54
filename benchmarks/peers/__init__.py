"""Random histories of views on this project and on others."""
