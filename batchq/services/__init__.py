"""The use cases, as the API's handlers call them."""
