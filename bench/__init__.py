"""What is measured and shown with Quiver; not part of the installed package."""
