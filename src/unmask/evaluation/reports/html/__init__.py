"""A report as one HTML file that needs nothing but a browser: tables, figures and examples."""
