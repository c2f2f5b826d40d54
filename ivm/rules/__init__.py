"""What is installed, as data: rules with their plans, their steps, and how the store keeps them."""
